/* The interface between `tune-cli bench` and a peer: another library that computes the same
 * operator, in a plugin `libtilewright_peer_NAME.so` of its own, opened at run time. Plain C, so
 * that a peer may be built by another compiler against another standard library.
 *
 * Life of a problem: prepare, run any number of times, destroy. Constant operands (a matmul's B, a
 * convolution's W, a bias) are laid out in the peer's own best way by prepare, so that run is the
 * operator alone. The caller measures.
 *
 * Not thread-safe: one thread uses one peer. */
#ifndef TILEWRIGHT_BENCH_PEERS_PEER_H_
#define TILEWRIGHT_BENCH_PEERS_PEER_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILEWRIGHT_PEER_ABI 2

/* An operand by the name that the operator's spec gives it: "A", "B", "C", "bias", "X", "W", "Y",
 * … Row-major and dense. The memory outlives the problem; outputs are written by run. */
typedef struct {
  const char* name;
  void* data;
  size_t bytes;
} TilewrightPeerOperand;

/* The code that runs a problem. */
typedef struct {
  const char* text; /* "brg_matmul:avx512_core_bf16"; may be empty; lives as long as the problem */
  int reference;    /* non-zero for code that is there to be right: no ratio to it means anything */
} TilewrightPeerImplementation;

typedef struct {
  int abi;             /* TILEWRIGHT_PEER_ABI; a plugin of another number is not used */
  const char* name;    /* "onednn" */
  const char* version; /* "3.13.2 (SYCL, TBB)": what the table prints beside the name */

  /* A problem for `spec_json`, one operator's spec as a JSON object, to run on `threads` threads.
   * Null where the peer has no such operator, with the reason in `reason` (always terminated). */
  void* (*prepare)(const char* spec_json, int threads, const TilewrightPeerOperand* operands,
                   int operand_count, char* reason, size_t reason_size);

  TilewrightPeerImplementation (*implementation)(void* problem);

  /* Computes once, and returns when the outputs are written. 0, or non-zero where it failed. */
  int (*run)(void* problem);

  void (*destroy)(void* problem);

  /* Ends what still spins in the peer's threads, so that another library can be measured on the
   * same cores. The next run may have to start threads: warm up again before measuring. */
  void (*quiesce)(void);
} TilewrightPeer;

/* The one symbol that a plugin exports. The answer lives as long as the plugin. */
typedef const TilewrightPeer* (*TilewrightPeerEntry)(void);
#define TILEWRIGHT_PEER_ENTRY "tilewright_peer"

#ifdef __cplusplus
}
#endif

#endif /* TILEWRIGHT_BENCH_PEERS_PEER_H_ */
