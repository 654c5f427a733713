// Writes to a database that another process may hold for a while.
#pragma once

#include <deque>
#include <functional>

#include "database/store.h"

namespace tilewright {

struct Patience {
  double retry = 10;  // seconds between two attempts
  double limit = 60;  // seconds after which it is over
};

// Stores facts in the order in which they come. What cannot be stored because another process holds
// the file stays in memory and is tried again. Used by one thread.
class PatientWriter {
 public:
  // One transaction: it may be called again when it could not be committed, and later than put()
  // returns or throws, so it owns what it stores.
  using Write = std::function<void(database::Store&)>;

  explicit PatientWriter(database::Store& store, Patience patience = {})
      : store_(store), patience_(patience) {}

  // Throws DatabaseError: of kind Locked, with the number of facts that are lost, when the file has
  // been held for longer than the limit; others at once, and gives up the fact that they are about.
  void put(Write write);
  // Returns when all is stored; throws like put().
  void flush();
  // What is not stored yet.
  size_t waiting() const { return waiting_.size(); }

 private:
  bool store_all();  // false when the file is held
  void held(const database::DatabaseError& e);

  database::Store& store_;
  Patience patience_;
  std::deque<Write> waiting_;
  double held_since_ = 0, next_try_ = 0;  // 0: it is free
};

}  // namespace tilewright
