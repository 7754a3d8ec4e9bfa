// The part of the CUDA driver's binary interface that is used here, declared by ourselves so that building needs no CUDA.
// Names and values are those of cuda.h; test/gpu_abi_test.cc compares them with it where it is installed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace muster::cuda {

using Result = int;  // CUresult
using Device = int;
using DevicePointer = unsigned long long;
using MemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Uuid = std::array<unsigned char, 16>;  // CUuuid

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kNotReady = 600;

inline constexpr int kComputeMajor = 75;  // CUdevice_attribute
inline constexpr int kComputeMinor = 76;
inline constexpr int kVirtualMemory = 102;
inline constexpr int kFileDescriptorHandles = 103;

inline constexpr int kPinned = 1;          // CU_MEM_ALLOCATION_TYPE_PINNED
inline constexpr int kFileDescriptor = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kOnDevice = 1;        // CU_MEM_LOCATION_TYPE_DEVICE
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kRead = 1;  // CU_MEM_ACCESS_FLAGS_PROT_READ
inline constexpr int kReadWrite = 3;

inline constexpr unsigned kHostPortable = 1;  // CU_MEMHOSTREGISTER_*
inline constexpr unsigned kHostReadOnly = 8;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;

struct MemoryLocation {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int requestedHandleTypes;
  MemoryLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRdmaCapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};

struct AccessDescription {
  MemoryLocation location;
  int flags;
};

static_assert(sizeof(void*) == 8 && sizeof(size_t) == 8, "the CUDA driver is used on 64-bit hosts only");
static_assert(sizeof(MemoryLocation) == 8);
static_assert(sizeof(AllocationProperties) == 32 && offsetof(AllocationProperties, win32HandleMetaData) == 16);
static_assert(sizeof(AccessDescription) == 12);

}  // namespace muster::cuda
