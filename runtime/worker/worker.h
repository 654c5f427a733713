// The worker's side: a process that serves jobs from its standard input.
//
// A request is {"id": 7, "type": "build", "payload": …}, a reply {"id": 7, "ok": true, "result": …}
// ("last": true beside it when the worker ends after this one) or {"id": 7, "ok": false, "kind": "error|memory|toolchain|internal", "message": "…"}; see
// runtime/worker/message.h for their frames. One job at a time.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace tilewright {

// Takes the payload and gives the result, both JSON text. What it throws becomes a reply that says
// so. It may also crash or hang: the parent sees to that.
using JobHandler = std::function<std::string(const std::string& payload)>;
using JobHandlers = std::map<std::string, JobHandler>;

// Serves jobs until the standard input ends; the process's exit code. The real standard output is
// kept for replies: what a handler prints goes to the standard error. Ignores SIGINT, so that
// Ctrl-C in a terminal is the parent's to decide about.
int worker_main(const JobHandlers& handlers);

// Called by a handler that may have left the process in disorder: it ends after this job's reply,
// and the parent starts another for the next job.
void retire_worker();

// The reply to one request: what worker_main() does between reading and writing.
std::string serve(const JobHandlers& handlers, const std::string& request);

}  // namespace tilewright
