// Our declarations of the CUDA driver against its own header, where that is installed.
#include "check.h"
#include "gpu/cuda_abi.h"

#ifdef MUSTER_CUDA_H
#include <cuda.h>

#include <type_traits>

namespace ours = muster::cuda;

static_assert(sizeof(CUresult) == sizeof(ours::Result) && std::is_same_v<CUdevice, ours::Device>);
static_assert(std::is_same_v<CUdeviceptr, ours::DevicePointer>);
static_assert(std::is_same_v<CUmemGenericAllocationHandle, ours::MemoryHandle>);
static_assert(sizeof(CUcontext) == sizeof(ours::Context) && sizeof(CUstream) == sizeof(ours::Stream));
static_assert(sizeof(CUmemAllocationProp) == sizeof(ours::AllocationProperties));
static_assert(offsetof(CUmemAllocationProp, location) == offsetof(ours::AllocationProperties, location));
static_assert(offsetof(CUmemAllocationProp, win32HandleMetaData) == offsetof(ours::AllocationProperties, win32HandleMetaData));
static_assert(offsetof(CUmemAllocationProp, allocFlags) == offsetof(ours::AllocationProperties, allocFlags));
static_assert(sizeof(CUmemAccessDesc) == sizeof(ours::AccessDescription));
static_assert(offsetof(CUmemAccessDesc, flags) == offsetof(ours::AccessDescription, flags));
static_assert(sizeof(CUuuid) == sizeof(ours::Uuid));
static_assert(CUDA_SUCCESS == ours::kSuccess && CUDA_ERROR_OUT_OF_MEMORY == ours::kOutOfMemory);
static_assert(CUDA_ERROR_NO_DEVICE == ours::kNoDevice && CUDA_ERROR_NOT_READY == ours::kNotReady);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == ours::kComputeMajor);
static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == ours::kComputeMinor);
static_assert(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED == ours::kVirtualMemory);
static_assert(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED == ours::kFileDescriptorHandles);
static_assert(CU_MEM_ALLOCATION_TYPE_PINNED == ours::kPinned && CU_MEM_LOCATION_TYPE_DEVICE == ours::kOnDevice);
static_assert(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR == ours::kFileDescriptor);
static_assert(CU_MEM_ALLOC_GRANULARITY_MINIMUM == ours::kGranularityMinimum);
static_assert(CU_MEM_ACCESS_FLAGS_PROT_READ == ours::kRead && CU_MEM_ACCESS_FLAGS_PROT_READWRITE == ours::kReadWrite);
static_assert(CU_MEMHOSTREGISTER_PORTABLE == ours::kHostPortable && CU_MEMHOSTREGISTER_READ_ONLY == ours::kHostReadOnly);
static_assert(CU_STREAM_NON_BLOCKING == ours::kStreamNonBlocking && CU_EVENT_DISABLE_TIMING == ours::kEventDisableTiming);

TEST("our declarations are those of cuda.h") { CHECK(CUDA_VERSION >= 11020); }
#else
TEST("our declarations are those of cuda.h (not compared: it is not installed)") { CHECK(true); }
#endif
