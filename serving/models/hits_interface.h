// ONNX Runtime's provider opens models by this function. It is no part of the C interface, since the importer would come
// into libtilewright.so with it.
#pragma once

#include <stddef.h>

#include "tilewright/tilewright.h"

extern "C" {

// Opens `count` models of one ONNX file of fixed sizes in memory, without a model file, on kernels of `library` that are
// hits for options->threads: the program of "tune-cli compile --hits", for CPUs. Nothing is compiled, tuned or written.
// `options` may be null; its `open` and `states_of` must be. A miss hands the names of the nodes that are in the way to
// `missing`, unless that is null. The models need neither the library nor the bytes any more; after a failure there are
// none.
__attribute__((visibility("hidden"))) tw_status tw_model_of_hits(
    tw_library* library, const void* onnx, size_t bytes, const tw_model_options* options,
    void (*missing)(void* user, const char* node), void* user, size_t count,
    tw_model** models) noexcept;

}  // extern "C"
