#include "models/weights/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "runtime/error.h"

namespace tilewright::weights {

MappedFile::MappedFile(const std::string& path) {
  auto fail = [&](const char* why) { throw FileError(path + ": cannot be read: " + why); };
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) fail(std::strerror(errno));
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("no plain file");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) fail(std::strerror(errno));
  data_ = mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

void damaged(const std::string& path, uint64_t offset, const std::string& what) {
  throw FileError(fmt::format("{}: byte {}: {}", path, offset, what));
}

}  // namespace tilewright::weights
