// The coordinator's end of one worker: a process whose standard input and output carry lines.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/files.h"
#include "tuner/fleet/place.h"

namespace tilewright {

// Never blocks, except in ending(). Not thread-safe; the thread that starts it must wait for it.
class Link {
 public:
  // No line is longer; a longer one is garbage.
  static constexpr size_t kLongestLine = size_t{64} << 20;

  explicit Link(Place place) : place_(std::move(place)) {}
  // Kills the process.
  ~Link();
  Link(Link&&) = delete;

  const Place& place() const { return place_; }
  bool running() const { return pid_ >= 0; }
  pid_t pid() const { return pid_; }
  int fd() const { return stream_.get(); }
  // Starts the command. Returns why it does not start, or "".
  std::string start();
  // Queues a line, without its end, and sends as much as goes.
  void send(std::string_view line);
  bool sends() const { return !outgoing_.empty(); }
  void flush();
  // Takes in what has come. False once the other end is closed.
  bool receive();
  std::optional<std::string> next_line();
  // Whether a line is longer than any may be.
  bool overflows() const { return received_.size() > kLongestLine; }
  // Ends the input: the worker ends by itself.
  void close_input();
  // Whether the process has ended by itself.
  bool has_ended();
  // Kills what is left of the process, and says how it ended with the last line that it wrote on
  // standard error: "exit code 255: ssh: connect to host a port 22: Connection refused".
  std::string ending();

 private:
  void read_errors();

  Place place_;
  pid_t pid_ = -1;
  UniqueFd stream_, errors_;
  std::string outgoing_, received_, said_;
  size_t looked_ = 0;  // no line ends before it
  std::optional<int> status_;
};

}  // namespace tilewright
