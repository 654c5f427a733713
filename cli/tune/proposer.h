// A program that proposes configs (tune --proposer): a line of JSON to it for each batch, a line back.
// docs/search.md#a-proposer-of-your-own describes the lines.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "base/files.h"
#include "tuner/search/proposals.h"

namespace tilewright::cli {

// Starts a shell command at the first request. Its standard error stays that of this process. Not
// thread-safe; the thread that asks must outlive the object.
class ProposerProcess {
 public:
  // Waits for answers until `seconds` from now, where that is no 0.
  ProposerProcess(std::string command, double seconds, const std::atomic<bool>& interrupted);
  // Closes the command's input. Kills it if it does not end within two seconds.
  ~ProposerProcess();
  ProposerProcess(ProposerProcess&&) = delete;

  // Sends the request and waits for the answer; after a few seconds a line says so. Nothing where the
  // run was interrupted meanwhile or its time is over. Throws UsageError where the command ends, or answers something else.
  std::vector<ProposedConfig> ask(const ProposalRequest& request);

 private:
  void start();
  void send(const std::string& line);
  std::string receive();
  bool wait_for(int fd, short events);
  bool is_over() const;
  int end();
  [[noreturn]] void ended();

  const std::string command_;
  const std::atomic<bool>& interrupted_;
  const double deadline_;
  pid_t pid_ = -1;
  UniqueFd to_, from_;  // sockets: writing to a program that has ended must not raise SIGPIPE
  std::string received_;
};

}  // namespace tilewright::cli
