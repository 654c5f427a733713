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
  ProposerProcess(std::string command, const std::atomic<bool>& interrupted);
  // Closes the command's input. Kills it if it does not end within two seconds.
  ~ProposerProcess();
  ProposerProcess(ProposerProcess&&) = delete;

  // Sends the request and waits for the answer, however long that takes. Nothing where the run was
  // interrupted meanwhile. Throws UsageError where the command ends, or answers something else.
  std::vector<ProposedConfig> ask(const ProposalRequest& request);

 private:
  void start();
  void send(const std::string& line);
  std::string receive();
  bool wait_for(short events);
  int end();
  [[noreturn]] void ended();

  const std::string command_;
  const std::atomic<bool>& interrupted_;
  pid_t pid_ = -1;
  UniqueFd stream_;
  std::string received_;
};

}  // namespace tilewright::cli
