# Configuration of the lit suite. Tests name the thing they test; negatives lie in *invalid.mlir.
import os
import sys

import lit.formats

config.name = "dl"
# lit's own shell: no bash per RUN line.
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.dl_test_exec_root
# specs are inputs of tests, Inputs folders and Fuzz likewise; the rest is not run by lit.
config.excludes = ["specs", "Fuzz", "Inputs", "CMakeLists.txt", "lit.cfg.py", "lit.site.cfg.py.in"]

# Our tools first, then FileCheck, not, count, split-file and mlir-runner of LLVM.
config.environment["PATH"] = os.pathsep.join(
    [config.dl_tools_dir, config.llvm_tools_dir, os.environ["PATH"]]
)
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):  # lit drops the caller's environment
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%clang", config.clang))
config.substitutions.append(("%build", config.dl_build_dir))
config.substitutions.append(("%examples", os.path.join(config.dl_source_dir, "examples")))
config.substitutions.append(("%specs", os.path.join(config.test_source_root, "specs")))
if config.ptxas:
    config.available_features.add("ptxas")
    config.substitutions.append(("%ptxas", config.ptxas))
