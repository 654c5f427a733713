// Structs of the C interface that several of its functions read.
#pragma once

#include <utility>

#include "database/trust/trust.h"
#include "serving/library.h"
#include "tilewright/tilewright.h"

struct tw_library {
  tw_library(const char* path, tilewright::serving::Library::Log log,
             tilewright::database::Trust trust, tilewright::serving::LaunchObserver asked)
      : library(path, std::move(log), std::move(trust)), observer(asked) {}
  tilewright::serving::Library library;
  tilewright::serving::LaunchObserver observer;
};

namespace tilewright::serving {

database::Trust trust_of(const tw_open_options& options);
// Lines for people go to the caller's function, or to standard error.
Library::Log log_of(const tw_open_options& options);
inline LaunchObserver observer_of(const tw_open_options& options) {
  return {options.launched, options.launched_user};
}
// The calling thread where null is given.
tw_executor executor_of(const tw_executor* given);

}  // namespace tilewright::serving
