/* The search runs in a Worker, which browsers refuse to pages that were opened from disk. There, a hidden frame does its work. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
      this.ready = this.load(url);
    }
    load(url) {
      return new Promise((loaded, failed) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: url, onload: loaded, onerror: failed });
        this.inside.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
  };
}
