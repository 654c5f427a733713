/* Tilewright's serving interface in C: kernels out of a database, in somebody else's process.
 *
 *   tw_library* library;                     // once: the database, read into memory
 *   tw_prepared* prepared;                   // once: kernels for these specs, loaded
 *   const tw_kernel* kernel;
 *   tw_weights* weights;                     // once a layer: laid out as the kernel reads them
 *   tw_open("kernels.db", NULL, &library);
 *   tw_prepare(library, &options, &prepared);
 *   tw_find(prepared, "matmul:m=1..64,n=4096,k=4096", &kernel);
 *   tw_pack_weights(kernel, named, 1, NULL, &weights);
 *   tw_launch(kernel, &launch);              // each time
 *
 * Errors. Each function that can fail returns a status; TW_OK is 0. The text of what went wrong
 * stays with the thread until its next failure: tw_last_error(). Nothing throws, and out
 * parameters are written on success alone.
 *
 * Versions. Each struct that a caller fills begins with its own size: TW_INIT(struct) sets it and
 * makes everything else 0, which stands for the default. A library that is older than its caller
 * refuses a struct whose fields it does not know unless they are 0.
 *
 * Threads. A library, what was prepared, kernels and weights may be used by many threads at once.
 * Freeing one needs that nobody uses it any more; a tw_prepared does not need its library, and
 * weights need neither. tw_launch takes no lock and allocates nothing.
 *
 * Units. Sizes are in bytes, shapes and strides in elements, times in seconds. */
#ifndef TILEWRIGHT_TILEWRIGHT_H_
#define TILEWRIGHT_TILEWRIGHT_H_

#include <stddef.h>
#include <stdint.h>

#include "tilewright/dlpack.h"

/* Goes up when something is added; what is there keeps its meaning and its layout. */
#define TW_INTERFACE_VERSION 5

#define TW_API __attribute__((visibility("default")))
#ifdef __cplusplus
template <class Struct>
inline Struct tw_init() noexcept {
  Struct made{};
  made.struct_size = sizeof(Struct);
  return made;
}
#define TW_NOEXCEPT noexcept
#define TW_INIT(type) (tw_init<type>())
extern "C" {
#else
#define TW_NOEXCEPT
#define TW_INIT(type) ((type){.struct_size = sizeof(type)})
#endif

typedef enum tw_status {
  TW_OK = 0,
  TW_ERROR_ARGUMENT = 1,  /* a null pointer, a number out of range, a struct of another version */
  TW_ERROR_SPEC = 2,      /* a spec that says no workload */
  TW_ERROR_DATABASE = 3,  /* a file that is missing, locked, damaged, or none of ours */
  TW_ERROR_MISS = 4,      /* no kernel serves what was asked for */
  TW_ERROR_TENSOR = 5,    /* an operand's shape, element type, strides, alignment or device */
  TW_ERROR_WEIGHTS = 6,   /* weights that were packed for another kernel */
  TW_ERROR_DEVICE = 7,    /* no such device, or it failed */
  TW_ERROR_KERNEL = 8,    /* a kernel that does not load, or reported a failure */
  TW_ERROR_MEMORY = 9,    /* out of memory, or a workspace that is too small */
  TW_ERROR_INTERNAL = 10, /* a fault of the library itself */
  /* a file of weights that is missing, damaged, or lacks what was asked for. Since version 4. */
  TW_ERROR_FILE = 11
} tw_status;

/* "ok", "argument", "spec", …; never null. */
TW_API const char* tw_status_name(tw_status status) TW_NOEXCEPT;
/* The text of this thread's last failure: the operand and dimension, or the path, and what would be
 * accepted; "" before the first failure. Valid until the thread's next failure. */
TW_API const char* tw_last_error(void) TW_NOEXCEPT;
/* "0.1.0". */
TW_API const char* tw_version(void) TW_NOEXCEPT;
/* The TW_INTERFACE_VERSION that the library was built with. */
TW_API uint32_t tw_interface_version(void) TW_NOEXCEPT;

/* --- Opening ---------------------------------------------------------------------------------- */

/* A database as it was when it was opened. The file is not used any more: it may be replaced or
 * deleted. */
typedef struct tw_library tw_library;

typedef struct tw_launch_event { /* a launch on a CPU that has ended; since version 5 */
  size_t struct_size;
  const char* spec; /* as prepared, or the node's; it lives as long as the kernel */
  double seconds;   /* by the wall's clock */
  int32_t threads;  /* of its executor */
} tw_launch_event;

typedef struct tw_open_options {
  size_t struct_size;
  /* Takes a line for people, once for each workload that is served by less than its own tuned
   * kernel. Null: standard error. Called by tw_prepare in the calling thread. */
  void (*log)(void* user, const char* line);
  void* log_user;
  /* Public keys, 64 hexadecimal digits each: kernels that one of them signed ("tune-cli db sign") run,
   * whoever may write the file. Since version 3. */
  const char* const* trust;
  size_t trust_count;
  /* SHA-256 of a serving file, 64 hexadecimal digits as sha256sum prints them: the file must have this
   * content, and then may be anybody's. Null: none. Since version 3. */
  const char* pin;
  /* Called in the launching thread after each launch on a CPU that succeeds, nodes of models among them.
   * Null: no clock is read. */
  void (*launched)(void* user, const tw_launch_event* event);
  void* launched_user;
} tw_open_options;

/* Reads the database at `path`, of this or an older version, and never writes to it. `options` may
 * be null. Rows that are damaged are passed over. Kernels are machine code: those of a file that
 * others than this user and root may write, and those that were merged into it, are misses, unless
 * they are signed by a key of `trust` or the file is pinned (docs/security.md). A process may be
 * forked meanwhile: fork waits until the file was read. */
TW_API tw_status tw_open(const char* path, const tw_open_options* options,
                         tw_library** library) TW_NOEXCEPT;
TW_API void tw_close(tw_library* library) TW_NOEXCEPT;

/* --- Preparing -------------------------------------------------------------------------------- */

/* Kernels that are loaded and ready to be launched. */
typedef struct tw_prepared tw_prepared;
/* The kernel that serves one spec, or one kernel for each range of its dynamic dimensions. */
typedef struct tw_kernel tw_kernel;

/* Sizes of the dynamic dimension called `dim` that will be asked for. */
typedef struct tw_sizes {
  const char* dim;
  const int64_t* values;
  size_t count;
} tw_sizes;

typedef struct tw_prepare_options {
  size_t struct_size;
  /* The specs to serve, in tune-cli's syntax: "matmul:m=1..64,n=4096,k=4096,w.dtype=u4", or JSON. */
  const char* const* specs;
  size_t spec_count;
  /* Sizes at which kernels are looked for one by one. A dynamic dimension that is not named is
   * asked for in its whole range. */
  const tw_sizes* sizes;
  size_t size_count;
  /* "native" (null), "avx512", "avx2", "generic", or "cuda:sm_90a". */
  const char* target;
  int32_t device; /* which GPU, from 0 */
  /* The number of threads that kernels were tuned for; 0: any number. Where the process may use fewer
   * processors, kernels for at most that many serve in their place (TW_NEAR). */
  int32_t threads;
} tw_prepare_options;

/* Finds and loads a kernel for each spec. A spec that no kernel serves is no error: the report says
 * so, and tw_find refuses it. Neither does a compiler need to be there, nor is one started. */
TW_API tw_status tw_prepare(tw_library* library, const tw_prepare_options* options,
                            tw_prepared** prepared) TW_NOEXCEPT;
/* Unloads the kernels. None of them may be running. */
TW_API void tw_release(tw_prepared* prepared) TW_NOEXCEPT;

/* How a spec is served, best first. */
typedef enum tw_outcome {
  TW_HIT = 0, /* by the kernel that was tuned for it, on this chip, with these threads */
  /* by one that was tuned on this chip for a range of sizes or other threads, or, for a CPU, on another
   * chip whose instruction sets this one has */
  TW_NEAR = 1,
  TW_DEFAULT = 2, /* by a generated kernel that nobody has chosen by measuring it */
  TW_MISS = 3     /* by none */
} tw_outcome;

/* One line of tw_prepare's report. Texts live as long as the tw_prepared. */
typedef struct tw_report {
  size_t struct_size;
  const char* spec;  /* as it was given */
  const char* sizes; /* "m=1..64": those that this line is about; "" without dynamic dimensions */
  tw_outcome outcome;
  const char* reason;  /* why it is no hit; "" for a hit */
  const char* command; /* that would tune it; "" for a hit, or where tuning does not help */
  const char* kernel;  /* the spec that the kernel was made for; "" for a miss */
  const char* sketch;  /* the sketch that made the kernel */
  double seconds;      /* that it took when it was tuned, at its largest sizes; 0: not known */
  int32_t threads;     /* for which it was tuned */
} tw_report;

TW_API size_t tw_report_count(const tw_prepared* prepared) TW_NOEXCEPT;
/* `report->struct_size` must be set. */
TW_API tw_status tw_report_at(const tw_prepared* prepared, size_t index,
                              tw_report* report) TW_NOEXCEPT;

/* Looks up the kernel of `spec`, the very text that was given to tw_prepare. The kernel belongs to
 * `prepared`. Allocates nothing. */
TW_API tw_status tw_find(const tw_prepared* prepared, const char* spec,
                         const tw_kernel** kernel) TW_NOEXCEPT;

/* --- Operands of a kernel --------------------------------------------------------------------- */

typedef enum tw_role {
  TW_INPUT = 0,
  TW_WEIGHT = 1, /* read, and the same in each launch */
  TW_OUTPUT = 2
} tw_role;

/* An operand of a spec. Texts and shapes live as long as the tw_prepared. */
typedef struct tw_operand {
  size_t struct_size;
  const char* name; /* "A" */
  tw_role role;
  DLDataType dtype; /* elements of less than 8 bits are packed, lowest bits first */
  int32_t ndim;
  const int64_t* shape; /* -1: a size that is known only at launch */
  size_t alignment;     /* of the first element */
  /* 0: a launch takes it as a tensor. 1: from weights that were packed. 2: as either, by the sizes of
   * the launch: give both. */
  int32_t packed;
} tw_operand;

/* Inputs in the order of the operator, then the output. */
TW_API size_t tw_operand_count(const tw_kernel* kernel) TW_NOEXCEPT;
/* `operand->struct_size` must be set. */
TW_API tw_status tw_operand_at(const tw_kernel* kernel, size_t index,
                               tw_operand* operand) TW_NOEXCEPT;

/* A dynamic dimension of a spec. Texts live as long as the tw_prepared. Since version 2. */
typedef struct tw_dim {
  size_t struct_size;
  const char* name; /* "m" */
  int64_t min, max; /* sizes that the spec allows */
  size_t operand;   /* a launch reads the size off this operand's */
  size_t axis;      /* axis */
} tw_dim;

TW_API size_t tw_dim_count(const tw_kernel* kernel) TW_NOEXCEPT;
/* `dim->struct_size` must be set. */
TW_API tw_status tw_dim_at(const tw_kernel* kernel, size_t index, tw_dim* dim) TW_NOEXCEPT;

/* How an axis of an operand follows from the dynamic dimensions:
 * floor((offset + sum of factors[d] * size of dimension d) / divisor). So that a caller knows the
 * shape of an output before there is one. Since version 2. */
typedef struct tw_extent {
  size_t struct_size;
  const int64_t* factors; /* of the first dimensions of tw_dim_at(); those of the others are 0 */
  size_t factor_count;
  int64_t offset;
  int64_t divisor; /* at least 1 */
} tw_extent;

/* `extent->struct_size` must be set. */
TW_API tw_status tw_extent_at(const tw_kernel* kernel, size_t operand, size_t axis,
                              tw_extent* extent) TW_NOEXCEPT;

/* Memory that a launch needs besides its operands, on the kernel's device: aligned to 64 bytes on a
 * CPU and to 256 on a GPU. A launch on up to `threads` threads may use it, one launch at a time. */
TW_API tw_status tw_workspace_bytes(const tw_kernel* kernel, int32_t threads,
                                    size_t* bytes) TW_NOEXCEPT;

/* --- Threads ---------------------------------------------------------------------------------- */

/* The caller's thread pool. */
typedef struct tw_executor {
  size_t struct_size;
  int32_t threads; /* workers that may run at once, at least 1 */
  /* Runs body(closure, begin, end, worker) over disjoint ranges that together make [0, n), with
   * 0 <= worker < threads and never two at once with one worker number, and returns when all are
   * done. Must not throw. */
  void (*parallel_for)(void* pool, int64_t n,
                       void (*body)(void* closure, int64_t begin, int64_t end, int32_t worker),
                       void* closure);
  void* pool;
} tw_executor;

/* The library's thread pool. Threads are pinned to processors that no other pool has, of this process
 * or another one, as far as there are any. One launch at a time has them; another one that comes
 * meanwhile runs on the thread that called it. */
typedef struct tw_pool tw_pool;

/* `threads` counts the calling one: a pool of 4 starts 3. It has no more than may run at once, by the
 * process's processors and its control group's quota (cpu.max): the executor says how many. */
TW_API tw_status tw_pool_start(int32_t threads, tw_pool** pool) TW_NOEXCEPT;
TW_API void tw_pool_stop(tw_pool* pool) TW_NOEXCEPT;
/* Lives as long as the pool. */
TW_API const tw_executor* tw_pool_executor(const tw_pool* pool) TW_NOEXCEPT;

/* --- Weights ---------------------------------------------------------------------------------- */

/* Weights as one kernel reads them. */
typedef struct tw_weights tw_weights;

typedef struct tw_named_tensor {
  const char* operand; /* "B", "B.scale" */
  const DLTensor* tensor;
} tw_named_tensor;

/* Lays out the operands that tw_operand_at() calls packed; all of them must be given. Tensors are
 * in the memory of the host and are not needed afterwards; what is made lies on the kernel's device.
 * `executor` may be null. Kernels without packed operands need no weights: the result is empty. */
TW_API tw_status tw_pack_weights(const tw_kernel* kernel, const tw_named_tensor* tensors,
                                 size_t count, const tw_executor* executor,
                                 tw_weights** weights) TW_NOEXCEPT;
TW_API void tw_free_weights(tw_weights* weights) TW_NOEXCEPT;
TW_API size_t tw_weights_bytes(const tw_weights* weights) TW_NOEXCEPT;
/* The identity of one layout of one workload's weights: hexadecimal digits, the same in each process
 * and different from those of every other layout. A kernel of several ranges has those of each,
 * separated by commas. Lives as long as the weights. */
TW_API const char* tw_weights_identity(const tw_weights* weights) TW_NOEXCEPT;
TW_API const char* tw_kernel_identity(const tw_kernel* kernel) TW_NOEXCEPT;

/* --- Files of weights -------------------------------------------------------------------------- */

/* A safetensors or GGUF file, or the index of several safetensors files. Its header was checked whole;
 * its data is mapped and touched only when it is asked for. Many threads may read one file. Since
 * version 4. */
typedef struct tw_weight_file tw_weight_file;

/* Opens the file at `path`; an index names files beside itself (model.safetensors.index.json). A file
 * that another process cuts short while it is open ends this process, as every mapped file does. */
TW_API tw_status tw_open_weights(const char* path, tw_weight_file** file) TW_NOEXCEPT;
TW_API void tw_close_weights(tw_weight_file* file) TW_NOEXCEPT;

/* A tensor of a file, as it lies. Everything lives as long as the tw_weight_file. Since version 4. */
typedef struct tw_stored_tensor {
  size_t struct_size;
  const char* name;
  const char* type; /* as its format calls it: "BF16", "Q4_K" */
  DLDataType dtype; /* of 0 lanes: there is no such element type here */
  int32_t ndim;
  const int64_t* shape; /* row-major */
  const void* data;     /* at any alignment */
  size_t bytes;
} tw_stored_tensor;

TW_API size_t tw_stored_tensor_count(const tw_weight_file* file) TW_NOEXCEPT;
/* `tensor->struct_size` must be set. */
TW_API tw_status tw_stored_tensor_at(const tw_weight_file* file, size_t index,
                                     tw_stored_tensor* tensor) TW_NOEXCEPT;

/* A quantized layer of a file: GPTQ, AWQ, compressed-tensors, or a tensor of a GGUF file in blocks. It
 * counts as a matrix [k, n] whose groups of rows share a scale. Texts live as long as the
 * tw_weight_file. Since version 4. */
typedef struct tw_stored_layer {
  size_t struct_size;
  const char* name;    /* what the names of its tensors begin with: "layers.0.q_proj" */
  const char* format;  /* "gptq", "awq", "compressed-tensors", "Q4_K" */
  const char* problem; /* why it cannot be read; "": it can, and else all below is 0 or "" */
  /* Keys of a matmul's spec for the layer as it is stored, "w.dtype=u4,w.group=128,w.scale=f16"; "" where
   * keys cannot say it: kernels take its dequantized values. */
  const char* keys;
  int64_t k, n, group;
  int32_t bits;
  int32_t act_order; /* 1: rows that share a scale are not neighbours */
} tw_stored_layer;

TW_API size_t tw_stored_layer_count(const tw_weight_file* file) TW_NOEXCEPT;
/* `layer->struct_size` must be set. */
TW_API tw_status tw_stored_layer_at(const tw_weight_file* file, size_t index,
                                    tw_stored_layer* layer) TW_NOEXCEPT;

/* Weights that were read from a file, as operands. Since version 4. */
typedef struct tw_operands tw_operands;

typedef struct tw_read_options {
  size_t struct_size;
  const char* operand; /* that takes them; null: "B" */
  /* Whose operands they become: its element types, its shapes, and [n, k] where a matmul has trans_b. A
   * kernel with OPERAND.scale takes a quantized layer as it is stored, with scales and zero points; any
   * other one takes its dequantized values. Null: everything as it lies in the file, a quantized layer as
   * codes [k, n], OPERAND.scale, OPERAND.zero or OPERAND.offset [groups, n]. */
  const tw_kernel* kernel;
  /* How zero points of GPTQ are stored: "gptq" (less one) or "gptq_v2" (as they are). Null: as the
   * configuration beside the file says, else "gptq". */
  const char* gptq_format;
} tw_read_options;

/* Reads a tensor or a quantized layer by its name. `options` may be null. The result needs neither the
 * file nor the kernel any more. */
TW_API tw_status tw_read_weights(const tw_weight_file* file, const char* name,
                                 const tw_read_options* options,
                                 tw_operands** operands) TW_NOEXCEPT;
TW_API void tw_free_operands(tw_operands* operands) TW_NOEXCEPT;
/* Its tensors: compact, row-major, in the host's memory and aligned to 64 bytes, as tw_pack_weights and
 * tw_launch take them. They live as long as the tw_operands. */
TW_API size_t tw_operands_count(const tw_operands* operands) TW_NOEXCEPT;
TW_API const tw_named_tensor* tw_operands_tensors(const tw_operands* operands) TW_NOEXCEPT;
/* For a layer in act-order that is read as it is stored: row r of OPERAND is row order[r] of the layer.
 * So column c of the other factor (A) has to be column order[c] of the caller's. k numbers; null: rows
 * are in their own order. */
TW_API const int64_t* tw_operands_order(const tw_operands* operands, size_t* count) TW_NOEXCEPT;

/* --- Launching -------------------------------------------------------------------------------- */

typedef struct tw_launch_args {
  size_t struct_size;
  /* A tensor for each operand, in the order of tw_operand_at(); null where it is packed. Compact,
   * row-major, of the operand's shape and element type; elements of less than 8 bits may also come
   * as bytes (uint8) that hold several. Dynamic dimensions are read off the shapes. */
  const DLTensor* const* tensors;
  size_t tensor_count;
  const tw_weights* weights; /* null: there are none */
  void* workspace;           /* null: none is needed */
  size_t workspace_bytes;
  const tw_executor* executor; /* of a CPU kernel; null: the calling thread */
  void* stream;                /* of a GPU kernel: a CUstream; null: the default one */
} tw_launch_args;

/* Checks the operands and runs the kernel: on a CPU until it is done, on a GPU by starting it on the
 * stream, which may be one that captures a graph. Nothing is written unless all checks pass. */
TW_API tw_status tw_launch(const tw_kernel* kernel, const tw_launch_args* args) TW_NOEXCEPT;

/* --- Whole models ------------------------------------------------------------------------------ */

/* A model that "tune-cli compile" wrote: its program, kernels and constants. It has the memory of one run: one
 * thread at a time may use it. Since version 5.
 *
 *   tw_model_open("model.tw", NULL, &model);  // loads kernels, packs weights, reserves memory
 *   tw_model_run(model, &args);               // each time: compiles, allocates and locks nothing */
typedef struct tw_model tw_model;

typedef struct tw_model_options {
  size_t struct_size;
  const tw_open_options* open; /* as for tw_open; null: the defaults */
  int32_t threads;             /* as of tw_prepare_options */
  /* A model whose states this one uses in place of its own, such as another program of the same decoder;
   * null: its own. They have the same names, types and shapes. One thread at a time may use both. */
  tw_model* states_of;
  /* As of tw_prepare_options; null: the one that the file was compiled for, which is "native" or a GPU's. */
  const char* target;
  int32_t device; /* which GPU, from 0 */
} tw_model_options;

/* Opens a model file. `options` may be null. A node that no kernel serves here is a miss, and the text
 * names all of them; a node that a lesser kernel serves is logged. */
TW_API tw_status tw_model_open(const char* path, const tw_model_options* options,
                               tw_model** model) TW_NOEXCEPT;
TW_API void tw_model_close(tw_model* model) TW_NOEXCEPT;

/* An input or an output. Texts and shapes live as long as the model. Where `shape` and `least` differ, each
 * run gives the size: inputs say it by their shapes, or the run finds it, and `least` is 0. Since version 5. */
typedef struct tw_port {
  size_t struct_size;
  const char* name;
  DLDataType dtype; /* truth values are bytes, 0 or 1; tensors of booleans do as well */
  int32_t ndim;
  const int64_t* shape; /* the largest size of each axis */
  const int64_t* least; /* the least size of each axis */
} tw_port;

TW_API size_t tw_model_input_count(const tw_model* model) TW_NOEXCEPT;
TW_API size_t tw_model_output_count(const tw_model* model) TW_NOEXCEPT;
/* `port->struct_size` must be set. */
TW_API tw_status tw_model_input_at(const tw_model* model, size_t index, tw_port* port) TW_NOEXCEPT;
TW_API tw_status tw_model_output_at(const tw_model* model, size_t index, tw_port* port) TW_NOEXCEPT;

/* Writes the shape that an output has in a run on these inputs, of which only types and shapes count:
 * `ndim` sizes; sizes that the run finds are the largest. Checks the inputs as a run does. Since version 5. */
TW_API tw_status tw_model_output_shape(const tw_model* model, const DLTensor* const* inputs,
                                       size_t input_count, size_t output,
                                       int64_t* shape) TW_NOEXCEPT;
/* The shape in the last run. Where that found sizes, elements lie compactly at the tensor's beginning. */
TW_API tw_status tw_model_last_output_shape(const tw_model* model, size_t output,
                                            int64_t* shape) TW_NOEXCEPT;
/* A state: it stays from run to run, such as the keys and values of a decoder; zeros at first. `data`
 * is its memory, row-major, which the caller may read and write between runs: copies of it save a sequence
 * and bring it back. It lives as long as a model that uses it. Since version 5. */
TW_API size_t tw_model_state_count(const tw_model* model) TW_NOEXCEPT;
TW_API tw_status tw_model_state_at(const tw_model* model, size_t index, tw_port* port,
                                   void** data) TW_NOEXCEPT;

typedef struct tw_model_args {
  size_t struct_size; /* since version 5 */
  /* By port, in their order: compact, row-major, at any alignment, in memory of the host or the model's GPU. */
  const DLTensor* const* inputs;
  size_t input_count;
  const DLTensor* const* outputs;
  size_t output_count;
  const tw_executor* executor; /* null: the calling thread */
  int32_t profile;             /* 1: keep each node's seconds for tw_model_node_at */
  void* stream;                /* of a model on a GPU: a CUstream; null: the default one */
} tw_model_args;

/* Checks the tensors, and the rows at which states are written, runs the nodes one after another, and writes
 * the outputs. The first run on more threads than any before reserves their memory. On a GPU it starts the run in
 * order with the stream, which does not capture, and waits for its end where a tensor is in the host's memory. */
TW_API tw_status tw_model_run(tw_model* model, const tw_model_args* args) TW_NOEXCEPT;

/* A node of the program. Texts live as long as the model. Since version 5. */
typedef struct tw_model_node {
  size_t struct_size;
  const char* label; /* the model's name for it */
  const char* spec;
  tw_outcome outcome;
  const char* reason;   /* why its kernel is no hit; "" for a hit */
  double tuned_seconds; /* that its kernel took when it was tuned; 0: not known */
  double seconds;       /* that it took in the last run with `profile`; 0: there was none */
} tw_model_node;

TW_API size_t tw_model_node_count(const tw_model* model) TW_NOEXCEPT;
/* `node->struct_size` must be set. */
TW_API tw_status tw_model_node_at(const tw_model* model, size_t index,
                                  tw_model_node* node) TW_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* TILEWRIGHT_TILEWRIGHT_H_ */
