// Protected pages around arrays: which array a fault belongs to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

// An array of `bytes` at `data` within [begin, end), whose other pages are protected.
struct Fence {
  const unsigned char *begin, *end;
  const unsigned char* data;
  int64_t bytes;
};

// Keeps a fence for the signal handler; those that find the table full are left out. Safe
// from several threads.
void register_fence(const Fence& fence, std::string_view array_name);
void forget_fence(const unsigned char* begin);

// Lets faults at a known array say on the standard error which array and where, before they end the
// process as they would have. For worker processes; called once.
void name_faults();

// Such a message in what a process wrote last, without its mark: "read 4 bytes past the end of 'A'
// (1024 bytes)".
std::optional<std::string> named_fault(std::string_view stderr_tail);

}  // namespace tilewright
