// The first lines between a coordinator and a worker: who each of them is.
#pragma once

#include <string>

#include "kernel/target.h"
#include "runtime/machine/identity.h"
#include "runtime/machine/machine.h"

namespace tilewright {

// The coordinator's first line.
struct Opening {
  std::string version;  // of this program
  std::string target;   // as Target::parse reads it
};

// The worker's answer.
struct Hello {
  std::string version;
  std::string host;   // for people
  TargetFacts facts;  // the machine's identity
  Target target;      // with the machine's own extensions and caches
  int cores = 1;      // that it may use
  Machine machine;    // the peaks; without rates for a GPU
};

std::string opening_line(const Opening& opening);
// Throws FleetError for another line.
Opening read_opening(const std::string& line);

// This machine as a worker for the target; measures its peaks where no earlier run has.
Hello hello_of_this_machine(const Target& target, const TargetFacts& facts,
                            const std::string& version);
std::string hello_line(const Hello& hello);
// Lines that a login prints in front of the hello.
class Greeting {
 public:
  // Whether this one is such a line. Too much of a greeting is garbage, which read_hello() refuses.
  bool has(const std::string& line);

 private:
  size_t bytes_ = 0;
};
// Reads a worker's first line. Throws FleetError where it is garbage, tells of a problem, is of another
// version, or contradicts itself.
Hello read_hello(const std::string& line, const Opening& opening);

}  // namespace tilewright
