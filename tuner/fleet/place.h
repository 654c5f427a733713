// Places where workers of a fleet run, and the commands that reach them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace tilewright {

// A worker that cannot be had, or a fleet without any.
class FleetError : public Error {
 public:
  using Error::Error;
};

struct Place {
  std::string name;                  // "ssh:build1", "local:4 #2"
  std::vector<std::string> command;  // its standard input and output reach a worker there
};

// The forms of --workers, for messages.
inline constexpr const char* kPlaceForms =
    "local:COUNT, ssh:HOST,HOST, srun:OPTIONS, ray:COUNT or command:COMMAND";

// Reads one value of --workers. `self` is this program's file, which local workers run; others run
// `tune-cli` as their PATH finds it. Throws FleetError that names the accepted forms.
std::vector<Place> parse_places(const std::string& text, const std::string& self);

}  // namespace tilewright
