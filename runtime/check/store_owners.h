// Which iteration of a parallel loop stored to which byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tilewright {

// Watches memory while the iterations of a parallel loop run one after the other. Two that store to the
// same byte would race in several threads, also where both store the same value: so what one iteration
// stored is inverted until the loop ends, and a later one that stores it again changes it back. The
// first store of the value that was there before the loop is not seen.
class StoreOwners {
 public:
  StoreOwners(std::string name, std::span<unsigned char> memory);

  // No iteration of the next loop has stored anything yet. `iterations`: where so many would take too
  // long to watch, the loop is passed over.
  void begin_loop(int64_t iterations);
  // Bytes changed since the last call are the work of one iteration.
  void end_iteration();
  // Gives memory what the iterations stored.
  void end_loop();

  // Whether each byte was changed by one iteration of a loop at most.
  bool are_apart() const { return apart_; }
  const std::string& name() const { return name_; }

 private:
  void claim(size_t begin, size_t end);

  std::string name_;
  std::span<unsigned char> memory_;
  std::vector<unsigned char> before_;
  std::vector<bool> owned_;
  bool watching_ = false, apart_ = true;
};

}  // namespace tilewright
