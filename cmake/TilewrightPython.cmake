# The Python package (python/), where pybind11, Python's headers and the modules of its tests are found.
option(TILEWRIGHT_BUILD_PYTHON "Build the Python package where pybind11 is found"
  ${PROJECT_IS_TOP_LEVEL})
set(TILEWRIGHT_PYTHON_LACKS "")  # why it is not built
if(NOT TILEWRIGHT_BUILD_PYTHON)
  set(TILEWRIGHT_PYTHON_LACKS "TILEWRIGHT_BUILD_PYTHON is off")
  return()
elseif(TILEWRIGHT_SANITIZE)
  # An interpreter without the sanitizer's runtime loads no module with it.
  set(TILEWRIGHT_PYTHON_LACKS "sanitizers need an interpreter that has them")
  return()
endif()

# If there are several interpreters, the one that has NumPy: build and tests have to use the same.
if(NOT Python_EXECUTABLE)
  foreach(candidate python3 /usr/bin/python3)
    execute_process(COMMAND ${candidate} -c "import numpy, sys; print(sys.executable, end='')"
      OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      set(Python_EXECUTABLE ${found} CACHE FILEPATH "The interpreter that the package is built for")
      break()
    endif()
  endforeach()
endif()
find_package(Python QUIET COMPONENTS Interpreter Development.Module)
set(PYBIND11_FINDPYTHON ON)
find_package(pybind11 2.10 CONFIG QUIET)
if(NOT Python_Development.Module_FOUND)
  set(TILEWRIGHT_PYTHON_LACKS "no headers of ${Python_EXECUTABLE}")
elseif(NOT pybind11_FOUND)
  set(TILEWRIGHT_PYTHON_LACKS "no pybind11 2.10")
endif()
if(TILEWRIGHT_PYTHON_LACKS AND SKBUILD)
  message(FATAL_ERROR "The Python module cannot be built: ${TILEWRIGHT_PYTHON_LACKS}")
elseif(TILEWRIGHT_PYTHON_LACKS)
  message(STATUS "The Python package is not built: ${TILEWRIGHT_PYTHON_LACKS}")
else()
  add_subdirectory(python)
endif()
