// Databases with a damage that follows from its seed, and the serving library given one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace tilewright::damaged {

namespace fs = std::filesystem;

// The workload of the sound database. Integers, so that a right result is exactly one.
inline const std::vector<std::string> kSpecs = {"matmul:m=12,n=16,k=24,dtype=i8",
                                                "elementwise:shape=100,fn=relu,dtype=i32",
                                                "matmul:m=1..8,n=16,k=24,dtype=i8"};

// Numbers that follow from a seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t end) { return random_() % end; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[below(list.size())];
  }
  std::string bytes(size_t count);

 private:
  std::mt19937_64 random_;
};

// Writes a damaged copy of the database `whole` to `path`, now and then with a foreign journal beside
// it. Returns the kind of damage.
std::string damage(const std::string& whole, const fs::path& path, Draw& draw);

// The operands of kSpecs[0], row by row, and their product.
struct Integers {
  explicit Integers(uint64_t seed, int64_t rows = 12);
  std::vector<int8_t> a, b;
  std::vector<int32_t> c;
};

// Gives the database to every function of the serving library. Returns "" where kernels compute the
// right integers and what is not served has a reason.
std::string use_library(const std::string& path, uint64_t seed);

}  // namespace tilewright::damaged
