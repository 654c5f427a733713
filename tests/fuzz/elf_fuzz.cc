// libFuzzer: the checker of shared objects reads any bytes without leaving them.
#include <cstddef>
#include <cstdint>

#include "runtime/elf_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view object(reinterpret_cast<const char*>(data), size);
  for (auto kind : {tilewright::ObjectKind::Kernel, tilewright::ObjectKind::Emulation}) {
    tilewright::object_problem(object, kind);
  }
  return 0;
}
