/* Times each step of a cold serving process, from main() to the end of the first launch:
 *   build/release/first-launch kernels.db matmul:m=64,n=768,k=768
 * bench/first_launch.py starts it many times and prints medians. Operands are zeros, of constant
 * shapes. One thread runs the kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tilewright/tilewright.h"

enum { MAX_OPERANDS = 16, ALIGNMENT = 256, LATER = 1000 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void check(tw_status status, const char* doing) {
  if (status == TW_OK) return;
  fprintf(stderr, "first-launch: %s: %s\n", doing, tw_last_error());
  exit(1);
}

static void* zeros(size_t bytes) {
  size_t size = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
  char* data = aligned_alloc(ALIGNMENT, size);
  if (!data) exit(1);
  for (size_t i = 0; i < size; ++i) data[i] = 0;
  return data;
}

/* A tensor for an operand, in memory of its own. */
static DLTensor tensor_of(const tw_operand* operand) {
  size_t elements = 1;
  for (int d = 0; d < operand->ndim; ++d) {
    if (operand->shape[d] < 0) {
      fprintf(stderr, "first-launch: expected constant sizes for operand %s\n", operand->name);
      exit(2);
    }
    elements *= (size_t)operand->shape[d];
  }
  DLTensor t = {.device = {kDLCPU, 0}, .ndim = operand->ndim, .dtype = operand->dtype};
  t.data = zeros((elements * operand->dtype.bits + 7) / 8);
  t.shape = (int64_t*)operand->shape;
  return t;
}

static int compare(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  double start = now_us();
  if (argc != 3) {
    fprintf(stderr, "usage: first-launch DATABASE SPEC\n");
    return 2;
  }
  const char* spec = argv[2];
  tw_library* library;
  check(tw_open(argv[1], NULL, &library), "opening the database");
  double opened = now_us();

  tw_prepare_options options = TW_INIT(tw_prepare_options);
  options.specs = &spec;
  options.spec_count = 1;
  tw_prepared* prepared;
  const tw_kernel* kernel;
  check(tw_prepare(library, &options, &prepared), "preparing");
  check(tw_find(prepared, spec, &kernel), "finding the kernel");
  double found = now_us();

  /* Operands belong to the caller, so their memory is not timed. */
  DLTensor tensors[MAX_OPERANDS];
  const DLTensor* taken[MAX_OPERANDS];
  tw_named_tensor named[MAX_OPERANDS];
  size_t count = tw_operand_count(kernel), packed = 0, workspace_bytes;
  if (count > MAX_OPERANDS) return 2;
  for (size_t i = 0; i < count; ++i) {
    tw_operand operand = TW_INIT(tw_operand);
    check(tw_operand_at(kernel, i, &operand), "asking for an operand");
    tensors[i] = tensor_of(&operand);
    taken[i] = operand.packed == 1 ? NULL : &tensors[i];
    if (operand.packed) named[packed++] = (tw_named_tensor){operand.name, &tensors[i]};
  }
  check(tw_workspace_bytes(kernel, 1, &workspace_bytes), "asking for the workspace");
  void* workspace = zeros(workspace_bytes);

  double ready = now_us();
  tw_weights* weights;
  check(tw_pack_weights(kernel, named, packed, NULL, &weights), "packing weights");
  double laid_out = now_us();
  tw_launch_args args = TW_INIT(tw_launch_args);
  args.tensors = taken;
  args.tensor_count = count;
  args.weights = weights;
  args.workspace = workspace;
  args.workspace_bytes = workspace_bytes;
  check(tw_launch(kernel, &args), "launching");
  double launched = now_us();

  static double later[LATER];
  for (int i = 0; i < LATER; ++i) {
    double begin = now_us();
    check(tw_launch(kernel, &args), "launching");
    later[i] = now_us() - begin;
  }
  qsort(later, LATER, sizeof later[0], compare);
  printf("{\"open_us\": %.1f, \"prepare_us\": %.1f, \"pack_us\": %.1f, \"first_launch_us\": %.1f, "
         "\"later_launch_us\": %.2f}\n",
         opened - start, found - opened, laid_out - ready, launched - laid_out, later[LATER / 2]);
  return 0;
}
