// Files that are read through the page cache, with no copy of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tilewright::weights {

// A whole file, mapped for reading. What another process writes to the file shows; one that cuts it
// short while it is mapped ends this process, as with every mapped file.
class MappedFile {
 public:
  // Throws FileError that names the file when it cannot be read or is no plain file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;  // null for an empty file, which cannot be mapped
  size_t size_ = 0;
};

// Throws FileError "PATH: byte OFFSET: WHAT".
[[noreturn]] void damaged(const std::string& path, uint64_t offset, const std::string& what);

}  // namespace tilewright::weights
