#include "ggml_backend/gguf_view.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <vector>

namespace tilewright::ggml {
namespace {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("ggml weight", MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }

  void append(const void* bytes, size_t count) {
    const char* at = static_cast<const char*>(bytes);
    while (count > 0) {
      const ssize_t written = write(descriptor_, at, count);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail();
      at += written;
      count -= static_cast<size_t>(written);
    }
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  [[noreturn]] static void fail() {
    throw std::system_error(errno, std::generic_category(), "a file in memory for a weight");
  }
  int descriptor_;
};

template <class Number>
void put(std::string& header, Number number) {
  header.append(reinterpret_cast<const char*>(&number), sizeof number);
}

// Version 3, without metadata: the data begins at a multiple of 32.
std::string header_of(ggml_type type, int64_t n, int64_t k) {
  constexpr std::string_view kName = kWeightName;
  std::string header = "GGUF";
  put(header, uint32_t{3});
  put(header, uint64_t{1});
  put(header, uint64_t{0});
  put(header, uint64_t{kName.size()});
  header += kName;
  put(header, uint32_t{2});
  put(header, static_cast<uint64_t>(k));
  put(header, static_cast<uint64_t>(n));
  put(header, static_cast<uint32_t>(type));
  put(header, uint64_t{0});
  header.resize((header.size() + 31) / 32 * 32);
  return header;
}

}  // namespace

tw::WeightFile weight_file(ggml_type type, int64_t n, int64_t k, const void* bytes) {
  MemoryFile file;
  const std::string header = header_of(type, n, k);
  const size_t size = ggml_row_size(type, k) * static_cast<size_t>(n);
  file.append(header.data(), header.size());
  file.append(bytes, size);
  const std::string padding((32 - size % 32) % 32, '\0');
  file.append(padding.data(), padding.size());
  return tw::WeightFile(file.path());  // which maps it
}

std::string block_keys(ggml_type type) {
  const int64_t k = ggml_blck_size(type) * 2;  // more than one group
  const std::vector<char> zeros(ggml_row_size(type, k) * 2);
  try {
    const tw::WeightFile file = weight_file(type, 2, k, zeros.data());
    for (const tw_stored_layer& layer : file.layers()) return layer.keys;
  } catch (const tw::Error&) {  // a type that libtilewright does not know
  }
  return "";
}

}  // namespace tilewright::ggml
