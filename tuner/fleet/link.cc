#include "tuner/fleet/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/utf8.h"
#include "runtime/compile/process.h"

namespace tilewright {
namespace {

constexpr size_t kSaidBytes = 4096, kShownBytes = 200;
constexpr int kEndPatienceMs = 500;

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const size_t before = text.find_last_of("\r\n", end);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return to_utf8(text.substr(begin, std::min(end + 1 - begin, kShownBytes)));
}

}  // namespace

Link::~Link() {
  if (running()) ending();
}

std::string Link::start() {
  int ends[2], errors[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return std::strerror(errno);
  stream_ = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  if (pipe2(errors, O_CLOEXEC) != 0) return std::strerror(errno);
  errors_ = UniqueFd(errors[0]);
  const UniqueFd their_errors(errors[1]);
  fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  outgoing_.clear();
  received_.clear();
  said_.clear();
  looked_ = 0;
  status_.reset();
  const int error =
      spawn_process(place_.command, {}, {theirs.get(), theirs.get(), their_errors.get()}, &pid_);
  if (error == 0) return "";
  pid_ = -1;
  return fmt::format("cannot run '{}': {}", place_.command[0], std::strerror(error));
}

void Link::send(std::string_view line) {
  outgoing_.append(line);
  outgoing_ += '\n';
  flush();
}

void Link::flush() {
  size_t sent = 0;
  while (sent < outgoing_.size()) {
    const ssize_t put = ::send(stream_.get(), outgoing_.data() + sent, outgoing_.size() - sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
      sent = outgoing_.size();  // it has ended
    if (put <= 0) break;
    sent += static_cast<size_t>(put);
  }
  outgoing_.erase(0, sent);
}

bool Link::receive() {
  read_errors();
  char buffer[1 << 16];
  for (int rounds = 0; rounds < 16; ++rounds) {  // the others have their turn, too
    const ssize_t got = recv(stream_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    received_.append(buffer, static_cast<size_t>(got));
    if (overflows()) return true;
  }
  return true;
}

void Link::read_errors() {
  char buffer[4096];
  for (ssize_t got; errors_.valid() && (got = read(errors_.get(), buffer, sizeof buffer)) > 0;) {
    said_.append(buffer, static_cast<size_t>(got));
    if (said_.size() > kSaidBytes) said_.erase(0, said_.size() - kSaidBytes);
  }
}

std::optional<std::string> Link::next_line() {
  const size_t end = received_.find('\n', looked_);
  if (end == std::string::npos) {
    looked_ = received_.size();
    return std::nullopt;
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  looked_ = 0;
  return line;
}

void Link::close_input() { shutdown(stream_.get(), SHUT_WR); }

bool Link::has_ended() {
  int status = 0;
  if (running() && !status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

std::string Link::ending() {
  if (!running()) return "is not running";
  // A process that is ending by itself gets a moment, so that its own way of ending is seen.
  pollfd closed{stream_.get(), POLLIN, 0};
  const bool leaves = poll(&closed, 1, 0) > 0 && (closed.revents & POLLHUP) != 0;
  for (int waited = 0; leaves && !has_ended() && waited < kEndPatienceMs; waited += 5) {
    poll(nullptr, 0, 5);
  }
  const bool forced = !has_ended();
  int status = status_.value_or(0);
  if (forced) {
    kill_tree(pid_);
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  read_errors();
  pid_ = -1;
  stream_.reset();
  errors_.reset();
  ProcessResult result;
  result.started = true;
  result.take(status);
  const std::string said = last_line(said_);
  const std::string how = forced ? "was ended" : result.outcome();
  return said.empty() ? how : how + ": " + said;
}

}  // namespace tilewright
