#include "runtime/load/perf_map.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/files.h"
#include "base/knobs.h"

namespace tilewright {

std::string perf_map_path() { return fmt::format("/tmp/perf-{}.map", getpid()); }

void name_code(const void* first, size_t bytes, std::string_view name) {
  if (!knob_boolean(Knob::PerfMap)) return;
  std::string line =
      fmt::format("{:x} {:x} {}", reinterpret_cast<uintptr_t>(first), bytes, name.substr(0, 200));
  std::ranges::replace(line, '\n', ' ');
  line += '\n';
  // Another user's file or link of that name is not followed; perf takes none that another user owns.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  UniqueFd file(open(perf_map_path().c_str(), flags, 0600));
  if (!file.valid()) return;
  [[maybe_unused]] const ssize_t written = write(file.get(), line.data(), line.size());
}

}  // namespace tilewright
