#include "base/error.h"

namespace tilewright {

void internal_error(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + message +
                      " (the condition was: " + condition + ")");
}

}  // namespace tilewright
