/* Serves a layer Y = X * W for batches of 1 to 64 rows, from C: opens a database, prepares the kernel,
 * lays the weight out once, and launches it for two sizes of the batch. */
#include <stdio.h>
#include <stdlib.h>
#include <tilewright/tilewright.h>

enum { N = 48, K = 32, ROWS = 64, THREADS = 2 };
static const char* const kSpec = "matmul:m=1..64,n=48,k=32";

/* Ends the program with the library's own words. */
static void check(tw_status status, const char* doing) {
  if (status == TW_OK) return;
  fprintf(stderr, "%s: %s error: %s\n", doing, tw_status_name(status), tw_last_error());
  exit(1);
}

/* A row-major f32 matrix in the memory of the host. */
static DLTensor matrix(float* data, int64_t shape[2]) {
  DLTensor t = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}};
  t.shape = shape;
  return t;
}

/* The largest difference from plain loops. */
static double largest_error(const float* x, const float* w, const float* y, int rows) {
  double largest = 0;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < N; ++j) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += (double)x[i * K + k] * w[k * N + j];
      double error = sum > y[i * N + j] ? sum - y[i * N + j] : y[i * N + j] - sum;
      if (error > largest) largest = error;
    }
  }
  return largest;
}

int main(int argc, char** argv) {
  /* Once: the database, and the kernel that is the best for this machine. */
  tw_library* library;
  check(tw_open(argc > 1 ? argv[1] : "kernels.db", NULL, &library), "opening");
  tw_prepare_options options = TW_INIT(tw_prepare_options);
  options.specs = &kSpec;
  options.spec_count = 1;
  options.threads = THREADS;
  tw_prepared* prepared;
  check(tw_prepare(library, &options, &prepared), "preparing");
  tw_close(library);
  const tw_kernel* kernel;
  check(tw_find(prepared, kSpec, &kernel), "looking the kernel up");

  /* Once: memory, threads, and the weight as the kernel reads it. Operands are aligned to 64 bytes. */
  static _Alignas(64) float x[ROWS * K], w[K * N], y[ROWS * N];
  for (int i = 0; i < ROWS * K; ++i) x[i] = (float)(i % 7) - 3;
  for (int i = 0; i < K * N; ++i) w[i] = (float)(i % 5) * 0.25f;
  size_t workspace_bytes;
  check(tw_workspace_bytes(kernel, THREADS, &workspace_bytes), "asking for the workspace");
  void* workspace = aligned_alloc(64, (workspace_bytes + 64) / 64 * 64);
  tw_pool* pool;
  check(tw_pool_start(THREADS, &pool), "starting threads");
  DLTensor weight = matrix(w, (int64_t[]){K, N});
  tw_operand operand = TW_INIT(tw_operand);
  check(tw_operand_at(kernel, 1, &operand), "asking for operand B");
  tw_named_tensor named = {operand.name, &weight};
  tw_weights* weights;
  check(tw_pack_weights(kernel, &named, operand.packed ? 1 : 0, tw_pool_executor(pool), &weights),
        "packing the weight");

  /* Each time: the batch's size is read off the tensors. */
  double error = 0;
  for (int rows = 1; rows <= ROWS; rows += 16) {
    DLTensor in = matrix(x, (int64_t[]){rows, K}), out = matrix(y, (int64_t[]){rows, N});
    const DLTensor* tensors[] = {&in, operand.packed == 1 ? NULL : &weight, &out};
    tw_launch_args args = TW_INIT(tw_launch_args);
    args.tensors = tensors;
    args.tensor_count = 3;
    args.weights = weights;
    args.workspace = workspace;
    args.workspace_bytes = workspace_bytes;
    args.executor = tw_pool_executor(pool);
    check(tw_launch(kernel, &args), "launching");
    double now = largest_error(x, w, y, rows);
    error = now > error ? now : error;
  }
  printf("tilewright %s: %s for 1, 17, 33 and 49 rows, largest error %g\n", tw_version(), kSpec,
         error);

  tw_free_weights(weights);
  tw_pool_stop(pool);
  tw_release(prepared);
  free(workspace);
  return error < 1e-4 ? 0 : 1;
}
