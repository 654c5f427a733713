// The functions that kernels call: each is a step of the thread that runs.
#include <fmt/format.h>

#include "base/error.h"
#include "emulator/scheduler.h"

namespace tilewright::emulator {
namespace {

thread_local Scheduler* active = nullptr;

// Where the kernel calls the function that this stands in: the same for all lanes.
#define TW_EMU_SITE __builtin_return_address(0)

void load(tw_emu_array* array, long long offset, int bytes, void* out, int line) {
  active->step(line);
  active->memory().load(active->running(), *array, offset, bytes, out, line);
  active->note(TW_EMU_SITE, *array, offset, bytes, AccessKind::Load);
}

void store(tw_emu_array* array, long long offset, int bytes, const void* value, int line) {
  active->step(line);
  active->memory().store(active->running(), *array, offset, bytes, value, line);
  active->note(TW_EMU_SITE, *array, offset, bytes, AccessKind::Store);
}

tw_emu_array* shared(const char* name, long long offset, long long count, int bytes, int line) {
  return active->memory().shared_array(active->running(), name, offset, count, bytes, line);
}

void sync_block(int line) {
  active->step(line);
  active->sync_block(line);
}

void sync_warp(unsigned mask, int line) {
  active->step(line);
  WarpRequest request;
  request.mask = mask;
  request.line = line;
  active->collective(request);
}

unsigned long long shuffle(unsigned mask, unsigned long long value, int source, int line) {
  active->step(line);
  WarpRequest request;
  request.kind = WarpRequest::Kind::Shuffle;
  request.mask = mask;
  request.line = line;
  request.value = value;
  request.source = source;
  active->collective(request);
  return active->running().request.value;
}

void copy_async(tw_emu_array* to, long long to_offset, tw_emu_array* from, long long from_offset,
                int bytes, int valid, int line) {
  active->step(line);
  ThreadState& thread = active->running();
  thread.uncommitted.push_back(
      active->memory().copy_async(thread, *to, to_offset, *from, from_offset, bytes, valid, line));
  active->note(TW_EMU_SITE, *from, from_offset, valid, AccessKind::AsyncStore);
  active->note(TW_EMU_SITE, *to, to_offset, bytes, AccessKind::AsyncStore);
}

void copy_commit(int line) {
  active->step(line);
  ThreadState& thread = active->running();
  thread.groups.push_back(std::move(thread.uncommitted));
  thread.uncommitted.clear();
}

void copy_wait(int pending, int line) {
  active->step(line);
  ThreadState& thread = active->running();
  while (static_cast<int>(thread.groups.size()) > pending) {
    for (const AsyncCopy& copy : thread.groups.front()) active->memory().land(thread, copy);
    thread.groups.pop_front();
  }
}

// A lane's part in moving `count` matrices between shared memory and registers.
WarpRequest matrix_request(WarpRequest::Kind kind, tw_emu_array* array, long long offset, int count,
                           int transposed, int line) {
  WarpRequest request;
  request.kind = kind;
  request.line = line;
  request.variant = 2 * count + transposed;
  request.array = array;
  request.offset = offset;
  return request;
}

void ldmatrix(tw_emu_array* array, long long offset, int count, int transposed, unsigned* r,
              int line) {
  active->step(line);
  WarpRequest request =
      matrix_request(WarpRequest::Kind::LdMatrix, array, offset, count, transposed, line);
  request.d = r;
  active->collective(request);
}

void stmatrix(tw_emu_array* array, long long offset, int count, int transposed, const unsigned* r,
              int line) {
  active->step(line);
  WarpRequest request =
      matrix_request(WarpRequest::Kind::StMatrix, array, offset, count, transposed, line);
  request.a = r;
  active->collective(request);
}

WarpRequest mma_request(void* d, const unsigned* a, const unsigned* b, const void* c, int line) {
  WarpRequest request;
  request.kind = WarpRequest::Kind::Mma;
  request.line = line;
  request.d = d;
  request.a = a;
  request.b = b;
  request.c = c;
  return request;
}

void mma(int row, void* d, const unsigned* a, const unsigned* b, const void* c, int line) {
  active->step(line);
  WarpRequest request = mma_request(d, a, b, c, line);
  request.variant = row;
  active->collective(request);
}

void mma_sp(int row, int selector, void* d, const unsigned* a, const unsigned* b, const void* c,
            unsigned e, int line) {
  active->step(line);
  WarpRequest request = mma_request(d, a, b, c, line);
  request.kind = WarpRequest::Kind::SparseMma;
  request.variant = kSelectors * row + selector;
  request.value = e;
  active->collective(request);
}

// A lane's part in what its warp does about asynchronous matrix instructions.
void wgmma_step(WarpRequest::Kind kind, int pending, int line) {
  active->step(line);
  WarpRequest request;
  request.kind = kind;
  request.variant = pending;
  request.line = line;
  active->collective(request);
}

void wgmma_fence(int line) { wgmma_step(WarpRequest::Kind::WgmmaFence, 0, line); }
void wgmma_commit(int line) { wgmma_step(WarpRequest::Kind::WgmmaCommit, 0, line); }
void wgmma_wait(int pending, int line) { wgmma_step(WarpRequest::Kind::WgmmaWait, pending, line); }

WarpRequest wgmma_request(int row, int across, void* d, const unsigned* registers,
                          const tw_operand* a, const tw_operand* b, int scale_d, int line) {
  WarpRequest request = mma_request(d, registers, nullptr, nullptr, line);
  request.kind = WarpRequest::Kind::Wgmma;
  request.variant = kWays * row + across;
  request.adds = scale_d != 0;
  request.shared_a = a;
  request.shared_b = b;
  return request;
}

void wgmma(int row, int across, void* d, const unsigned* registers, const tw_operand* a,
           const tw_operand* b, int scale_d, int line) {
  active->step(line);
  WarpRequest request = wgmma_request(row, across, d, registers, a, b, scale_d, line);
  active->collective(request);
}

void wgmma_sp(int row, int selector, int across, void* d, const unsigned* registers,
              const tw_operand* a, const tw_operand* b, unsigned e, int scale_d, int line) {
  active->step(line);
  WarpRequest request = wgmma_request(row, across, d, registers, a, b, scale_d, line);
  request.selector = selector;
  request.value = e;
  active->collective(request);
}

}  // namespace

const tw_emu_host& host_functions() {
  static const tw_emu_wgmma_host of_warpgroups = {wgmma_fence, wgmma_commit, wgmma_wait, wgmma,
                                                  wgmma_sp};
  static const tw_emu_host functions = {load,     store,      shared,      sync_block,    sync_warp,
                                        shuffle,  copy_async, copy_commit, copy_wait,     ldmatrix,
                                        stmatrix, mma,        mma_sp,      &of_warpgroups};
  return functions;
}

Scheduler& active_scheduler() { return *active; }

ActiveScheduler::ActiveScheduler(Scheduler& scheduler) {
  TW_ASSERT(active == nullptr, "an emulated kernel runs in this thread already");
  active = &scheduler;
}
ActiveScheduler::~ActiveScheduler() { active = nullptr; }

}  // namespace tilewright::emulator
