#include "serving/fork.h"

#include <pthread.h>

namespace tilewright::serving {
namespace {

// Plain data with constant initializers: nothing of it runs when the library is loaded.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int inside = 0;                  // threads that must not be torn apart by a fork
int forking = 0;                 // threads that wait for these, and before which no other begins
thread_local int own_depth = 0;  // of them, this thread

// A thread that forks while it is inside cannot wait for itself: in its child that call goes on.
void before_fork() {
  pthread_mutex_lock(&mutex);
  const int own = own_depth > 0 ? 1 : 0;
  ++forking;
  while (inside > own) pthread_cond_wait(&changed, &mutex);
  --forking;
}

void after_fork_in_parent() {
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

void after_fork_in_child() {
  // The parent's waiters are not here.
  changed = PTHREAD_COND_INITIALIZER;
  forking = 0;
  pthread_mutex_unlock(&mutex);
}

void enter() {
  pthread_mutex_lock(&mutex);
  while (own_depth == 0 && forking > 0) pthread_cond_wait(&changed, &mutex);
  if (own_depth++ == 0) ++inside;
  pthread_mutex_unlock(&mutex);
}

void leave() {
  pthread_mutex_lock(&mutex);
  if (--own_depth == 0) --inside;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

}  // namespace

NoFork::NoFork() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once,
               [] { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
  enter();
}

NoFork::~NoFork() { leave(); }

MayFork::MayFork() { leave(); }

MayFork::~MayFork() { enter(); }

}  // namespace tilewright::serving
