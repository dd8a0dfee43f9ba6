// Browsers refuse to start a worker for a page that is opened as a file. There, the search runs in
// a hidden frame that looks like a worker to the theme, so that it works without a server.
if (location.protocol === "file:") {
  const load = (page, address) =>
    new Promise((resolve, reject) => {
      const script = page.createElement("script");
      script.onload = resolve;
      script.onerror = () => reject(new Error(`cannot load ${address}`));
      script.src = address;
      page.head.append(script);
    });

  class IFrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><head></head>");
      inside.document.close();
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...addresses) => {
        for (const one of addresses) await load(inside.document, one);
      };
      this.ready = load(inside.document, address);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = IFrameWorker; // the theme asks for this name
  window.Worker = IFrameWorker;
}
