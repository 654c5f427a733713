/* The calling convention of a compiled CPU kernel, in plain C. Generated code carries its own copy of
 * these declarations, so a change here is a new TW_KERNEL_ABI_VERSION. */
#ifndef TILEWRIGHT_KERNEL_ABI_H_
#define TILEWRIGHT_KERNEL_ABI_H_

#include <stdint.h>

#define TW_KERNEL_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* The services that a caller provides to a kernel. `parallel_for` runs body(closure, begin, end,
 * worker) over disjoint sub-ranges that together make [0, n), with 0 <= worker < threads. Two bodies
 * never run at once with one worker number. It returns when all are done. The caller may pass a pool
 * of its own. */
typedef struct tw_context {
  int32_t threads;
  void (*parallel_for)(void* pool, int64_t n,
                       void (*body)(void* closure, int64_t begin, int64_t end, int32_t worker),
                       void* closure);
  void* pool;
  /* Memory of `workspace_bytes + threads * workspace_bytes_per_thread` bytes, by the kernel's
   * description, aligned to 64 bytes; may be null when that is 0. The shared part comes first. */
  void* workspace;
} tw_context;

/* Every function of a kernel's shared object, the main one and the packing ones. `args`: one pointer
 * per parameter in the order of the description, aligned to 64 bytes. `dims`: the dynamic dimensions
 * in order, may be null when there are none. Returns 0. */
typedef int32_t (*tw_kernel_fn)(void* const* args, const int64_t* dims, const tw_context* context);

#ifdef __cplusplus
}
#endif
#endif
