// Shared objects that need nothing of the dynamic loader.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

// An object in memory of its own, which nobody may write: the segments at their addresses. No library, debugger or
// profiler knows of it. Most kernels compute all of their addresses relative to themselves, and placing one takes
// a fifth of the time of dlopen.
class PlacedObject {
 public:
  // Nothing for an object that has relocations or needs a library, and where memory must not become executable.
  // Requires that object_problem() and object_state() say nothing of it.
  static std::optional<PlacedObject> place(std::string_view object);
  ~PlacedObject();
  PlacedObject(PlacedObject&& other) noexcept;
  PlacedObject& operator=(PlacedObject&& other) noexcept;

  // The address of a function; null where the object has none of that name. `object` is what was placed.
  void* symbol(std::string_view object, const std::string& name) const;

 private:
  PlacedObject(char* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  char* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tilewright
