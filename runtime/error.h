// Errors of the runtime.
#pragma once

#include "base/error.h"

namespace tilewright {

// The compiler is missing or does not work at all (exit code 4).
class ToolchainError : public Error {
 public:
  using Error::Error;
};

// The compiler refused a source, crashed on it, or ran out of time; `what` ends with what it said.
class CompileError : public Error {
 public:
  using Error::Error;
};

// A compiled object that cannot be loaded, or arguments that do not fit a kernel.
class KernelError : public Error {
 public:
  using Error::Error;
};

// There is no GPU here (exit code 4), or it or its driver failed; `what` says what was being done.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// Memory that could not be had, or that a limit forbids.
class MemoryError : public Error {
 public:
  using Error::Error;
};

// A file that is not what it should be; `what` begins with its path.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace tilewright
