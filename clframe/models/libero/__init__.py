"""Parts of the three policies of LIBERO (:mod:`clframe.models.libero_policies`)."""
