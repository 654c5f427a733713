// Runs a program to its end.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace tilewright {

struct ProcessResult {
  bool started = false;    // false: `error` says why (no such program, no permission)
  bool timed_out = false;  // it was killed
  int exit_code = -1;      // -1 when a signal ended it
  int signal = 0;
  std::string out, err;
  std::string error;

  bool ok() const { return started && !timed_out && exit_code == 0; }
  // "exit code 1", "killed by SIGSEGV", "timed out", or why it did not start.
  std::string outcome() const;
  // Takes the exit code or the signal of a wait status.
  void take(int wait_status);
};

// Starts argv[0], found on the PATH, in a process group of its own (Ctrl-C in a terminal does not reach it). It has
// these descriptors as its standard streams, -1: this process's own, and the environment as run_process() makes it.
// Returns 0 or an errno.
int spawn_process(const std::vector<std::string>& argv, const std::vector<std::string>& variables,
                  const std::array<int, 3>& streams, pid_t* child);

// Looks for argv[0] on the PATH and runs it with `input` on its standard input, in a process group
// of its own (Ctrl-C in a terminal does not reach it), which is killed after `timeout_seconds`. It
// has the environment of this process with `variables` ("NAME=value") in the place of their like.
ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input,
                          double timeout_seconds, const std::vector<std::string>& variables = {});

// The environment of this process with these variables ("NAME=value") in the place of their like.
std::vector<std::string> environment_with(const std::vector<std::string>& variables);
// For execve: pointers into the words, which must live on, and a null behind them.
std::vector<char*> pointers_to(const std::vector<std::string>& words);

// Kills a process and all that stand below it, whatever groups they are in; processes that lost
// their parent before are not found. The caller still has to wait for its own child.
void kill_tree(pid_t pid);

// "SIGSEGV (segmentation fault)".
std::string signal_name(int signal);

}  // namespace tilewright
