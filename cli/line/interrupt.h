// Ctrl-C: the first one asks to stop, the second one stops.
#pragma once

#include <atomic>

namespace tilewright::cli {

// Installs the handler of SIGINT and SIGTERM; the flag turns true at the first signal, the second
// ends the process at once with exit code 130.
const std::atomic<bool>& catch_interrupts();

// From now on this process is interrupted when `parent`, which has started it, ends, also without a
// word; at once where that has ended already. What counts is the thread that has started it.
void end_with_parent(int parent);

}  // namespace tilewright::cli
