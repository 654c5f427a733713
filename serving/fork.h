// Forking while another thread opens a database, or loads or unloads kernels. SQLite guards what its
// connections share with locks, and so do the loader and this library; a child that was forked while
// one of them was held would wait for it forever. So fork waits until no thread is inside such a call.
#pragma once

namespace tilewright::serving {

// As long as one lives, other threads' fork() waits. Any number of threads may have one.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

// Within the life of a NoFork: this thread calls a function of the user's, holds no lock, and may be
// forked. The function may itself wait for whoever forks, as one in Python does.
class MayFork {
 public:
  MayFork();
  ~MayFork();
  MayFork(const MayFork&) = delete;
  MayFork& operator=(const MayFork&) = delete;
};

}  // namespace tilewright::serving
