#include "cli/tune/proposer.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "ir/ops/spec.h"
#include "runtime/compile/process.h"
#include "runtime/machine/timer.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestLine = size_t{16} << 20;
constexpr int kEndPatienceMs = 2000, kLookMs = 100;
constexpr double kWaitsUnsaid = 10;  // seconds
constexpr std::string_view kExpected =
    R"(expected one line such as {"configs": [{"config": {"C.vi.rows": 4}}]} (docs/search.md))";

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

// The fault of one element of "configs"; empty: none.
std::string fault_of(const Json& entry) {
  if (!entry.is_object()) return "is no object";
  for (const auto& [key, value] : entry.items()) {
    if (key != "config" && key != "sketch" && key != "repair" && key != "tag") {
      return fmt::format("has '{}'; there are config, sketch, repair and tag", key);
    }
  }
  if (!entry.contains("config") || !entry["config"].is_object()) return "has no object 'config'";
  if (entry.contains("sketch") && !entry["sketch"].is_string())
    return "has a 'sketch' that is no text";
  if (entry.contains("repair") && !entry["repair"].is_boolean()) {
    return "has a 'repair' that is neither true nor false";
  }
  return "";
}

std::vector<ProposedConfig> read_answer(const std::string& command, const std::string& line) {
  const auto refuse = [&](const std::string& fault) {
    throw UsageError(fmt::format("--proposer: '{}' answered '{}': {}; {}", command,
                                 to_utf8(line.substr(0, 200)), fault, kExpected));
  };
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) refuse("no JSON document in one line");
  if (!json.is_object() || !json.contains("configs") || !json["configs"].is_array()) {
    refuse("no object with a list 'configs'");
  }
  std::vector<ProposedConfig> configs;
  for (const Json& entry : json["configs"]) {
    if (const std::string fault = fault_of(entry); !fault.empty()) {
      refuse(fmt::format("configs[{}] {}", configs.size(), fault));
    }
    configs.push_back({entry.value("sketch", ""), entry["config"].dump(),
                       entry.value("repair", false),
                       entry.contains("tag") ? entry["tag"].dump() : ""});
  }
  return configs;
}

void connect(UniqueFd* ours, UniqueFd* theirs) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error(std::string("--proposer: no socket: ") + std::strerror(errno));
  }
  *ours = UniqueFd(ends[0]);
  *theirs = UniqueFd(ends[1]);
}

}  // namespace

ProposerProcess::ProposerProcess(std::string command, double seconds,
                                 const std::atomic<bool>& interrupted)
    : command_(std::move(command)), interrupted_(interrupted),
      deadline_(seconds > 0 ? steady_seconds() + seconds
                            : std::numeric_limits<double>::infinity()) {}

bool ProposerProcess::is_over() const { return interrupted_ || steady_seconds() >= deadline_; }

ProposerProcess::~ProposerProcess() {
  if (pid_ >= 0) end();
}

// The wait status.
int ProposerProcess::end() {
  to_.reset();
  from_.reset();
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
  UniqueFd in, out;
  connect(&to_, &in);
  connect(&from_, &out);
  // Its standard error is that of this process.
  const int error =
      spawn_process({"/bin/sh", "-c", command_}, {}, {in.get(), out.get(), -1}, &pid_);
  if (error == 0) return;
  pid_ = -1;
  throw Error(fmt::format("--proposer: cannot run /bin/sh: {}", std::strerror(error)));
}

void ProposerProcess::ended() {
  const int status = end();
  ProcessResult result;
  result.started = true;
  result.take(status);
  throw UsageError(fmt::format(
      "--proposer: '{}' ended ({}) before it answered; all finished trials are kept, and "
      "the same command with --resume goes on",
      command_, result.outcome()));
}

// Whether it is ready; false once the run is over.
bool ProposerProcess::wait_for(int fd, short events) {
  pollfd event{fd, events, 0};
  const double since = steady_seconds();
  bool is_said = false;
  while (!is_over()) {
    if (poll(&event, 1, kLookMs) > 0) return true;
    if (is_said || steady_seconds() - since < kWaitsUnsaid) continue;
    is_said = true;
    spdlog::warn("waiting for the answer of --proposer '{}'; does it flush each line?", command_);
  }
  return false;
}

void ProposerProcess::send(const std::string& line) {
  for (size_t sent = 0; sent < line.size() && wait_for(to_.get(), POLLOUT);) {
    const ssize_t put =
        ::send(to_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) sent += static_cast<size_t>(put);
    if (put < 0 && errno == EPIPE) ended();
  }
}

// A line without its end; empty once the run is over.
std::string ProposerProcess::receive() {
  size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (!wait_for(from_.get(), POLLIN)) return "";
    char buffer[1 << 16];
    const ssize_t got = recv(from_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno == ECONNRESET)) ended();
    if (got > 0) received_.append(buffer, static_cast<size_t>(got));
    if (received_.size() > kLongestLine) {
      throw UsageError(
          fmt::format("--proposer: '{}' answered more than {} MiB without a line's end; {}",
                      command_, kLongestLine >> 20, kExpected));
    }
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

std::vector<ProposedConfig> ProposerProcess::ask(const ProposalRequest& request) {
  if (pid_ < 0) start();
  send(request_json(request).dump() + "\n");
  const std::string line = receive();
  if (is_over()) return {};
  return read_answer(command_, line);
}

}  // namespace tilewright::cli
