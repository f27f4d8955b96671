# The target `wheel`: PyTorch's headers and libraries as pip installs them, and WHEEL_HAS_CUDA.
#
# Not find_package(Torch): that wants the whole CUDA toolkit with its compiler where the wheel is for CUDA, and here no
# device code is compiled. What it would find lies in known places.

# Where the package `torch` lies: beside the CMake files that CMAKE_PREFIX_PATH names, else where Python finds it.
foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
  foreach(candidate "${prefix}" "${prefix}/../.." "${prefix}/torch")
    if(NOT WHEEL AND EXISTS "${candidate}/include/ATen/core/Tensor.h")
      get_filename_component(WHEEL "${candidate}" ABSOLUTE)
    endif()
  endforeach()
endforeach()
if(NOT WHEEL)
  find_program(PYTHON NAMES python3 python)
  if(PYTHON)
    execute_process(COMMAND "${PYTHON}" -c "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE problem RESULT_VARIABLE failed)
    if(NOT failed)
      get_filename_component(WHEEL "${prefix}/../.." ABSOLUTE)
    endif()
  endif()
endif()
if(NOT EXISTS "${WHEEL}/include/ATen/core/Tensor.h" OR NOT EXISTS "${WHEEL}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no PyTorch found: activate the environment that has it, or give its place with\n"
    "  -DCMAKE_PREFIX_PATH=\"$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')\"\n${problem}")
endif()

# Wheels since 2.7 use the new ABI of libstdc++; the library itself tells: only then it has such names.
file(STRINGS "${WHEEL}/lib/libc10.so" new_abi REGEX "_ZN3c105ErrorC[12].*__cxx11" LIMIT_COUNT 1)
if(new_abi)
  set(abi 1)
else()
  set(abi 0)
endif()

set(WHEEL_HAS_CUDA FALSE)
set(libraries "${WHEEL}/lib/libc10.so" "${WHEEL}/lib/libtorch_cpu.so")
set(folders "${WHEEL}/lib")
if(EXISTS "${WHEEL}/lib/libtorch_cuda.so")
  file(GLOB packages "${WHEEL}/../nvidia/*")
  set(toolkits $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
  find_path(CUDA_HEADERS cuda_runtime_api.h
    PATHS ${toolkits} ${packages} PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include
    NO_DEFAULT_PATH)
  # PyTorch's own headers of CUDA include these two as well.
  find_path(CUBLAS_HEADERS cublas_v2.h PATHS ${toolkits} ${packages} PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_path(CUSPARSE_HEADERS cusparse.h PATHS ${toolkits} ${packages} PATH_SUFFIXES include NO_DEFAULT_PATH)
  # The wheel's own runtime: a second one would have its own idea of which GPU is the current one.
  set(runtimes)
  foreach(package IN LISTS packages)
    file(GLOB found "${package}/lib/libcudart.so*")
    list(APPEND runtimes ${found})
    if(IS_DIRECTORY "${package}/lib")
      list(APPEND folders "${package}/lib")
    endif()
  endforeach()
  foreach(toolkit IN LISTS toolkits)
    file(GLOB found "${toolkit}/lib64/libcudart.so")
    list(APPEND runtimes ${found})
  endforeach()
  if(CUDA_HEADERS AND CUBLAS_HEADERS AND CUSPARSE_HEADERS AND runtimes)
    set(WHEEL_HAS_CUDA TRUE)
    list(GET runtimes 0 runtime)
    list(APPEND libraries "${WHEEL}/lib/libtorch_cuda.so" "${WHEEL}/lib/libc10_cuda.so" "${runtime}")
  else()
    message(WARNING "this PyTorch is for CUDA, but CUDA's headers or runtime are not found (set CUDA_HOME): "
      "only --device cpu will work")
  endif()
endif()
list(APPEND libraries "${WHEEL}/lib/libtorch.so")
message(STATUS "PyTorch in ${WHEEL}, with CUDA: ${WHEEL_HAS_CUDA}")

add_library(wheel INTERFACE)
target_include_directories(wheel SYSTEM INTERFACE "${WHEEL}/include" "${WHEEL}/include/torch/csrc/api/include")
if(WHEEL_HAS_CUDA)
  target_include_directories(wheel SYSTEM INTERFACE "${CUDA_HEADERS}" "${CUBLAS_HEADERS}" "${CUSPARSE_HEADERS}")
endif()
target_compile_definitions(wheel INTERFACE _GLIBCXX_USE_CXX11_ABI=${abi})
list(JOIN folders ":" run_path)
# Ops register themselves when their library is loaded, which nothing here calls by name: all must stay linked. What
# these libraries need in turn is found when the program starts.
target_link_options(wheel INTERFACE
  "LINKER:--no-as-needed" "LINKER:--allow-shlib-undefined" "LINKER:--disable-new-dtags" "LINKER:-rpath,${run_path}")
target_link_libraries(wheel INTERFACE ${libraries} pthread)
