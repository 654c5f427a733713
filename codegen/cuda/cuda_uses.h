// A kernel's uses of the buffers that it is given.
#pragma once

#include <set>

#include "ir/stmt.h"

namespace tilewright {

// How a kernel uses the buffers passed to it. A buffer that only TMA copies move is passed by maps.
struct Uses {
  std::set<const BufferNode*> read, written;
  bool boxes_loaded = false, boxes_stored = false;
};

Uses uses_of(const Stmt& kernel);

}  // namespace tilewright
