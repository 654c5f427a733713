#include "cli/tune/proposer.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "ir/ops/spec.h"
#include "runtime/compile/process.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestLine = size_t{16} << 20;
constexpr int kEndPatienceMs = 2000, kLookMs = 100;
constexpr std::string_view kExpected =
    R"(expected one line such as {"configs": [{"config": {"vector": 2}}]} (docs/search.md))";

Json answer_json(const Answer& answer) {
  return std::visit([](const auto& value) { return Json(value); }, answer);
}

// A tag is any JSON value, kept as its text.
void put_tag(Json& entry, const std::string& tag) {
  if (!tag.empty()) entry["tag"] = Json::parse(tag);
}

Json request_json(const ProposalRequest& r) {
  Json sketches = Json::array(), knobs = Json::object(), outcomes = Json::array(),
       refused = Json::array();
  for (const Sketch& s : r.sketches) sketches.push_back({{"name", s.name}, {"version", s.version}});
  for (const KnobOptions& knob : r.knobs) {
    Json& options = knobs[knob.name] = Json::array();
    for (const Answer& option : knob.options) options.push_back(answer_json(option));
  }
  for (const auto& [outcome, tag] : r.told) {
    Json& entry = outcomes.emplace_back(
        Json{{"sketch", outcome.sketch->name},
             {"config", Json::parse(outcome.config)},
             {"seconds", outcome.seconds > 0 ? Json(outcome.seconds) : Json(nullptr)}});
    put_tag(entry, tag);
  }
  for (const auto& [proposed, reason] : r.refused) {
    Json& entry =
        refused.emplace_back(Json{{"config", Json::parse(proposed.config)}, {"reason", reason}});
    put_tag(entry, proposed.tag);
  }
  return {{"spec", spec_to_inline(parse_spec(r.input.workload.canonical))},
          {"target", r.input.target.name},
          {"threads", r.input.threads},
          {"count", r.count},
          {"sketches", sketches},
          {"knobs", knobs},
          {"outcomes", outcomes},
          {"refused", refused}};
}

bool is_config(const Json& entry) {
  return entry.is_object() && entry.contains("config") && entry["config"].is_object() &&
         (!entry.contains("sketch") || entry["sketch"].is_string()) &&
         (!entry.contains("repair") || entry["repair"].is_boolean());
}

std::vector<ProposedConfig> read_answer(const std::string& command, const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  const bool listed = json.is_object() && json.contains("configs") && json["configs"].is_array();
  std::vector<ProposedConfig> configs;
  for (const Json& entry : listed ? json["configs"] : Json::array({nullptr})) {
    if (!is_config(entry)) {
      throw UsageError(fmt::format("--proposer: '{}' answered '{}'; {}", command,
                                   to_utf8(line.substr(0, 200)), kExpected));
    }
    configs.push_back({entry.value("sketch", ""), entry["config"].dump(),
                       entry.value("repair", false),
                       entry.contains("tag") ? entry["tag"].dump() : ""});
  }
  return configs;
}

}  // namespace

ProposerProcess::ProposerProcess(std::string command, const std::atomic<bool>& interrupted)
    : command_(std::move(command)), interrupted_(interrupted) {}

ProposerProcess::~ProposerProcess() {
  if (pid_ >= 0) end();
}

// The wait status.
int ProposerProcess::end() {
  shutdown(stream_.get(), SHUT_RDWR);
  int status = 0;
  for (int waited = 0; waited < kEndPatienceMs; waited += kLookMs) {
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return status;
    }
    poll(nullptr, 0, kLookMs);
  }
  kill_tree(pid_);
  waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

void ProposerProcess::start() {
  int ends[2];
  // One socket both ways: writing to a program that has ended must not raise SIGPIPE here.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(std::string("--proposer: no socket: ") + std::strerror(errno));
  }
  stream_ = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  std::vector<std::string> words = {"/bin/sh", "-c", command_}, environment = environment_with({});
  std::vector<char*> argv = pointers_to(words), variables = pointers_to(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);  // Ctrl-C in a terminal is this process's business
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error =
      posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return;
  pid_ = -1;
  throw Error(fmt::format("--proposer: cannot run /bin/sh: {}", std::strerror(error)));
}

void ProposerProcess::ended() {
  const int status = end();
  ProcessResult result;
  result.started = true;
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  throw UsageError(fmt::format("--proposer: '{}' ended ({}) before it answered; {}", command_,
                               result.outcome(), kExpected));
}

// Whether the stream is ready; false once the run was interrupted.
bool ProposerProcess::wait_for(short events) {
  pollfd event{stream_.get(), events, 0};
  while (!interrupted_) {
    if (poll(&event, 1, kLookMs) > 0) return true;
  }
  return false;
}

void ProposerProcess::send(const std::string& line) {
  for (size_t sent = 0; sent < line.size() && wait_for(POLLOUT);) {
    const ssize_t put =
        ::send(stream_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) sent += static_cast<size_t>(put);
    if (put < 0 && errno == EPIPE) ended();
  }
}

// A line without its end; empty once the run was interrupted.
std::string ProposerProcess::receive() {
  for (size_t end; (end = received_.find('\n')) == std::string::npos;) {
    if (!wait_for(POLLIN)) return "";
    char buffer[1 << 16];
    const ssize_t got = recv(stream_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) ended();
    if (got > 0) received_.append(buffer, static_cast<size_t>(got));
    if (received_.size() > kLongestLine) {
      throw UsageError(
          fmt::format("--proposer: '{}' answered more than {} MiB without a line's end; "
                      "{}",
                      command_, kLongestLine >> 20, kExpected));
    }
  }
  const size_t end = received_.find('\n');
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

std::vector<ProposedConfig> ProposerProcess::ask(const ProposalRequest& request) {
  if (pid_ < 0) start();
  send(request_json(request).dump() + "\n");
  const std::string line = receive();
  if (interrupted_) return {};
  return read_answer(command_, line);
}

}  // namespace tilewright::cli
