// Checks of what the constructors of nodes are given.
#pragma once

#include "base/error.h"

namespace tilewright {

// Throws IrError unless `ok`.
inline void require(bool ok, const char* message) {
  if (!ok) throw IrError(message);
}

// Millions of nodes are made, so a message is formatted only when the check fails.
template <class Message>
void require(bool ok, const Message& message) {
  if (!ok) throw IrError(message());
}

}  // namespace tilewright
