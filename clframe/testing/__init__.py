"""Tests for authors of plugins, streams, models and metrics: a toy stream, and the contracts.

``check_plugin``, ``check_stream``, ``check_model`` and ``check_metric`` raise an ``AssertionError``
that names the problem. The command ``clframe check`` runs them and slower checks.
"""

from clframe.testing.contracts import check_metric as check_metric
from clframe.testing.contracts import check_model as check_model
from clframe.testing.contracts import check_stream as check_stream
from clframe.testing.plugins import check_plugin as check_plugin
from clframe.testing.toy import Kill as Kill
from clframe.testing.toy import Killed as Killed
from clframe.testing.toy import interrupted_run as interrupted_run
from clframe.testing.toy import killed_run as killed_run
from clframe.testing.toy import prepare as prepare
from clframe.testing.toy import prepare_toy as prepare_toy
from clframe.testing.toy import run_built as run_built
from clframe.testing.toy import toy_model as toy_model
from clframe.testing.toy import toy_run as toy_run
from clframe.testing.toy import toy_stream as toy_stream
