"""Programs that run ONNX files beside a model file: each is a class whose objects have the model and its inputs.

IREE, TVM and ncnn compile the model first, from a copy with the shapes of the inputs, folded constants and a new
opset. TVM is not tuned. Imported by scripts/bench_models.py; `tune-cli bench` has both in itself."""
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tempfile


class OnnxRuntime:
    """A peer: `run` runs the model on the inputs, `outputs` gives what it made, in the model's order.

    `package` is its name, `module` what is imported, `wheel` what says its version.
    """
    title, package, module, wheel = "ONNX Runtime", "onnxruntime", "onnxruntime", "onnxruntime"

    def __init__(self, module, onnx: str, inputs: dict, threads: int, _precision: str = "f32"):
        options = module.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.session = module.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
        wanted = {port.name for port in self.session.get_inputs()}
        self.inputs = {name: array for name, array in inputs.items() if name in wanted}

    def run(self) -> None:
        self.made = self.session.run(None, self.inputs)

    def outputs(self) -> list:
        return self.made


class OpenVino:
    title, package, module, wheel = "OpenVINO", "openvino", "openvino", "openvino"

    def __init__(self, module, onnx: str, inputs: dict, threads: int, precision: str = "f32"):
        core = module.Core()
        model = core.read_model(onnx)
        ports = {name: port for port in model.inputs for name in port.names}
        inputs = {name: array for name, array in inputs.items() if name in ports}
        model.reshape({ports[name]: list(array.shape) for name, array in inputs.items()})
        hint = {} if precision == "default" else {"INFERENCE_PRECISION_HINT": precision}
        self.request = core.compile_model(model, "CPU", {
            **hint, "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
            "ENABLE_CPU_PINNING": False}).create_infer_request()
        for name, array in inputs.items():
            self.request.set_tensor(name, module.Tensor(array, shared_memory=True))
        self.run = self.request.infer

    def outputs(self) -> list:
        return [tensor.data for tensor in self.request.output_tensors]


def keep(field, kept: list) -> None:
    """Leaves these in a repeated field of a model."""
    del field[:]
    field.extend(kept)


def fixed_model(onnx: str, inputs: dict, path: str) -> list:
    """Writes the model as compilers take it: shapes of the inputs, opset 17, folded constants. Its inputs in order."""
    import onnx as format_of_models
    import onnxruntime
    model = format_of_models.load(onnx)
    graph, constants = model.graph, {tensor.name for tensor in model.graph.initializer}
    graph.name, model.ir_version = "main", max(8, model.ir_version)  # from 4 on constants need not be inputs
    keep(graph.input, [port for port in graph.input if port.name not in constants])
    for port in graph.input:
        if port.name not in inputs:
            raise ValueError(f"the model file has no input {port.name}; --const gives it a number")
        port.type.tensor_type.ClearField("shape")
        for extent in inputs[port.name].shape:
            port.type.tensor_type.shape.dim.add().dim_value = extent
    if all(opset.domain == "" and opset.version < 17 for opset in model.opset_import):
        model = format_of_models.version_converter.convert_version(model, 17)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 3, path
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    model = format_of_models.load(path)
    graph, domains = model.graph, {node.domain for node in model.graph.node}
    read = {name for node in graph.node for name in node.input}
    keep(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read])
    keep(graph.input, [port for port in graph.input if port.name in read])
    keep(model.opset_import, [opset for opset in model.opset_import if opset.domain in domains])
    format_of_models.save(model, path)
    return [inputs[port.name] for port in graph.input]


class Iree:
    title, package, module, wheel = "IREE", "iree", "iree.runtime", "iree-base-runtime"

    def __init__(self, module, onnx: str, inputs: dict, threads: int, _precision: str = "f32"):
        from iree.compiler import tools
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            arrays = fixed_model(onnx, inputs, path)
            subprocess.run([sys.executable, "-m", "iree.compiler.tools.import_onnx", path, "-o", path + ".mlir"],
                           check=True, capture_output=True)
            program = tools.compile_file(path + ".mlir", target_backends=["llvm-cpu"],
                                         extra_args=["--iree-llvmcpu-target-cpu=host"])
        if threads > 1:
            module.flags.parse_flags(f"--task_topology_group_count={threads}")
        config = module.Config("local-sync" if threads == 1 else "local-task")
        context = module.SystemContext(config=config)
        context.add_vm_module(module.VmModule.copy_buffer(config.vm_instance, program))
        self.function = context.modules.module["main"]
        self.inputs = [module.asdevicearray(config.device, array) for array in arrays]

    def run(self) -> None:
        self.made = self.function(*self.inputs)

    def outputs(self) -> list:
        made = self.made if isinstance(self.made, tuple) else (self.made,)
        return [array.to_host() for array in made]


class Tvm:
    title, package, module, wheel = "TVM", "tvm", "tvm", "apache-tvm"

    def __init__(self, module, onnx: str, inputs: dict, threads: int, _precision: str = "f32"):
        import onnx as format_of_models
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx
        from tvm.target.codegen import llvm_get_system_cpu
        # Its pool reads them when it starts. By itself it takes every second processor to be a hyperthread.
        os.environ.update(TVM_NUM_THREADS=str(threads), TVM_BIND_THREADS="0")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            arrays = fixed_model(onnx, inputs, path)
            program = from_onnx(format_of_models.load(path))
        target = module.target.Target({"kind": "llvm", "mcpu": llvm_get_system_cpu(), "num-cores": threads})
        with target:
            self.function = relax.VirtualMachine(module.compile(program, target), module.cpu())["main"]
        self.inputs = [module.runtime.tensor(array) for array in arrays]

    def run(self) -> None:
        self.made = self.function(*self.inputs)

    def outputs(self) -> list:
        return [self.made.numpy()] if hasattr(self.made, "numpy") else [tensor.numpy() for tensor in self.made]


class Ncnn:
    title, package, module, wheel = "ncnn", "ncnn", "ncnn", "ncnn"
    kinds = {"float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8",
             "bool": "bool"}

    def __init__(self, module, onnx: str, inputs: dict, threads: int, _precision: str = "f32"):
        self.net = module.Net()
        options = self.net.opt
        options.num_threads = threads
        for name in dir(options):
            if name.startswith(("use_fp16", "use_bf16")):
                setattr(options, name, False)
        converter = os.path.join(importlib.util.find_spec("pnnx").submodule_search_locations[0], "pnnx")
        with tempfile.TemporaryDirectory() as folder:
            arrays = fixed_model(onnx, inputs, os.path.join(folder, "model.onnx"))
            shapes = ",".join(f"{list(array.shape)}{self.kinds[array.dtype.name]}".replace(" ", "") for array in arrays)
            subprocess.run([converter, "model.onnx", f"inputshape={shapes}", "fp16=0"], cwd=folder, check=True,
                           capture_output=True)
            stem = os.path.join(folder, "model.ncnn.")
            if self.net.load_param(stem + "param") != 0 or self.net.load_model(stem + "bin") != 0:
                raise RuntimeError("the converted model has layers that ncnn does not know")
            with open(os.path.join(folder, "model_ncnn.py"), encoding="utf-8") as file:
                example = file.read()  # tells which axis of each tensor is the batch, that ncnn leaves out
        batches = re.findall(r"ncnn\.Mat\(in\d+\.numpy\(\), batch_index=(\d+)\)", example)
        self.inputs = [(f"in{i}", module.Mat(array, batch_index=int(batch)))
                       for i, (array, batch) in enumerate(zip(arrays, batches, strict=True))]
        self.batches = [int(batch) for batch in re.findall(r"out\d+\.numpy\(batch_index=(\d+)\)", example)]

    def run(self) -> None:
        extractor = self.net.create_extractor()
        for name, mat in self.inputs:
            extractor.input(name, mat)
        self.made = [extractor.extract(f"out{i}")[1] for i in range(len(self.batches))]

    def outputs(self) -> list:
        return [mat.numpy(batch_index=batch) for mat, batch in zip(self.made, self.batches)]


LOADING = (OnnxRuntime, OpenVino)  # those that run the file as it is
PEERS = (*LOADING, Iree, Tvm, Ncnn)


def module_of(peer):
    """The peer's Python module, or None where it is not installed."""
    try:
        return importlib.import_module(peer.module)
    except ImportError:
        return None


def version_of(peer, module) -> str:
    return getattr(module, "__version__", None) or importlib.metadata.version(peer.wheel)


def reason_of(problem: Exception) -> str:
    """The line of its text that tells most: a compiler's error, or the first that is not the place in a source."""
    text = problem.stderr.decode() if isinstance(problem, subprocess.CalledProcessError) else str(problem)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [repr(problem)]
    told = [line for line in lines if " error: " in line] or [line for line in lines if not line.endswith(":")] or lines
    return told[-1 if isinstance(problem, subprocess.CalledProcessError) else 0][:300]
