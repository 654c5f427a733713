// Shared objects that need nothing of the dynamic loader.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilewright {

// Memory for the code of some kernels: written first, then sealed, from when on it is executed and nobody may
// write it.
class CodeMemory {
 public:
  // Takes memory of the system for as many bytes at a time, or for one object if that is larger.
  explicit CodeMemory(size_t step = 0) : step_(step) {}
  ~CodeMemory();
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;

  // Room for that many bytes, at a page; null where there is none, or where memory must not become executable.
  char* take(size_t bytes);
  // Nothing in it may run before. Throws KernelError where the system refuses.
  void seal();

 private:
  struct Chunk {
    char* memory;
    size_t bytes, used;
    bool sealed;
  };

  size_t step_;
  std::vector<Chunk> chunks_;
};

// An object in such memory: its segments, at their distances. No library or debugger knows of it. Most
// kernels compute all of their addresses relative to themselves, and placing one takes a tenth of the time of
// dlopen.
class PlacedObject {
 public:
  // Nothing for an object that has relocations or needs a library, and where there is no memory for it. Requires
  // that object_problem() and object_state() say nothing of it.
  static std::optional<PlacedObject> place(std::string_view object,
                                           std::shared_ptr<CodeMemory> memory);

  // Tells profilers whose code it is (perf_map.h).
  void name(std::string_view text) const;

  // The address of a function; null where the object has none of that name. `object` is what was placed.
  void* symbol(std::string_view object, const std::string& name) const;

 private:
  PlacedObject(std::shared_ptr<CodeMemory> memory, char* first, size_t bytes)
      : memory_(std::move(memory)), first_(first), bytes_(bytes) {}

  std::shared_ptr<CodeMemory> memory_;
  char* first_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tilewright
