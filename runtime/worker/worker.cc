#include "runtime/worker/worker.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "runtime/error.h"
#include "runtime/worker/message.h"

namespace tilewright {
namespace {

using nlohmann::json;

bool retired = false;

// Invalid UTF-8 (a compiler's message in another encoding) must not cost the reply.
std::string dump_reply(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string failure(const json& id, const char* kind, const std::string& message) {
  return dump_reply({{"id", id}, {"ok", false}, {"kind", kind}, {"message", message}});
}

std::string run_handler(const JobHandlers& handlers, const json& request, const json& id) {
  std::string type = request.value("type", "");
  auto handler = handlers.find(type);
  if (handler == handlers.end()) {
    std::string known;
    for (const auto& [name, _] : handlers) known += (known.empty() ? "" : ", ") + name;
    return failure(id, "error", "unknown job '" + type + "'; known: " + known);
  }
  std::string result = handler->second(dump_reply(request.value("payload", json())));
  // Spliced as text: the result need not be parsed to be passed on.
  return "{\"id\":" + id.dump() + (retired ? ",\"last\":true" : "") +
         ",\"ok\":true,\"result\":" + result + "}";
}

}  // namespace

void retire_worker() { retired = true; }

std::string serve(const JobHandlers& handlers, const std::string& text) {
  json request = json::parse(text, nullptr, false);
  if (!request.is_object()) return failure(nullptr, "error", "the request is no JSON object");
  json id = request.value("id", json());
  try {
    return run_handler(handlers, request, id);
  } catch (const std::bad_alloc&) {
    return failure(id, "memory", "out of memory");
  } catch (const MemoryError& e) {
    return failure(id, "memory", e.what());
  } catch (const ToolchainError& e) {
    return failure(id, "toolchain", e.what());
  } catch (const Error& e) {
    return failure(id, "error", e.what());
  } catch (const std::exception& e) {
    return failure(id, "internal", e.what());
  }
}

int worker_main(const JobHandlers& handlers) {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  UniqueFd in(fcntl(0, F_DUPFD_CLOEXEC, 3)), out(fcntl(1, F_DUPFD_CLOEXEC, 3));
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.valid() || !out.valid() || !null.valid()) return 1;
  dup2(null.get(), 0);
  dup2(2, 1);
  while (!retired) {
    std::optional<std::string> request = read_message(in.get());
    if (!request) break;
    if (!write_all(out.get(), frame_message(serve(handlers, *request)))) return 1;
  }
  return 0;
}

}  // namespace tilewright
