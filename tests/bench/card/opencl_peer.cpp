// SPDX-License-Identifier: Apache-2.0
// The declarations are our own, after the OpenCL 1.2 specification (5.1, 5.8, 5.13), so that no header has to be
// installed.
#include "tests/bench/card/opencl_peer.hpp"

#include <stdexcept>
#include <string_view>
#include <vector>

#include "tests/bench/card/shared_object.hpp"

namespace bench {

namespace {
using Handle = void*;
constexpr std::uint64_t kCpuDevice = 2;
constexpr std::uint32_t kPlatformName = 0x0902;
constexpr std::string_view kPocl = "Portable Computing Language";
constexpr const char* kSource = "__kernel void nothing(void) {}";

void check(int error, const char* call) {
  if (error != 0) throw std::runtime_error(std::string(call) + " failed with " + std::to_string(error));
}
}  // namespace

struct OpenClPeer::Calls {
  int (*get_platforms)(std::uint32_t, Handle*, std::uint32_t*);
  int (*get_platform_info)(Handle, std::uint32_t, std::size_t, void*, std::size_t*);
  int (*get_devices)(Handle, std::uint64_t, std::uint32_t, Handle*, std::uint32_t*);
  Handle (*create_context)(const std::intptr_t*, std::uint32_t, const Handle*, void*, void*, int*);
  Handle (*create_queue)(Handle, Handle, std::uint64_t, int*);
  Handle (*create_program)(Handle, std::uint32_t, const char**, const std::size_t*, int*);
  int (*build_program)(Handle, std::uint32_t, const Handle*, const char*, void*, void*);
  Handle (*create_kernel)(Handle, const char*, int*);
  int (*enqueue_kernel)(Handle, Handle, std::uint32_t, const std::size_t*, const std::size_t*, const std::size_t*,
                        std::uint32_t, const Handle*, Handle*);
  int (*finish)(Handle);
  int (*release_kernel)(Handle);
  int (*release_program)(Handle);
  int (*release_queue)(Handle);
  int (*release_context)(Handle);

  bool load(const SharedObject& library) {
    return library.find("clGetPlatformIDs", get_platforms) && library.find("clGetPlatformInfo", get_platform_info) &&
           library.find("clGetDeviceIDs", get_devices) && library.find("clCreateContext", create_context) &&
           library.find("clCreateCommandQueue", create_queue) &&
           library.find("clCreateProgramWithSource", create_program) && library.find("clBuildProgram", build_program) &&
           library.find("clCreateKernel", create_kernel) && library.find("clEnqueueNDRangeKernel", enqueue_kernel) &&
           library.find("clFinish", finish) && library.find("clReleaseKernel", release_kernel) &&
           library.find("clReleaseProgram", release_program) && library.find("clReleaseCommandQueue", release_queue) &&
           library.find("clReleaseContext", release_context);
  }

  Handle pocl() const {
    Handle platforms[16];
    std::uint32_t count = 0;
    if (get_platforms(16, platforms, &count) != 0) return nullptr;
    for (std::uint32_t i = 0; i < count && i < 16; ++i) {
      char name[128] = {};
      if (get_platform_info(platforms[i], kPlatformName, sizeof name - 1, name, nullptr) == 0 && name == kPocl) {
        return platforms[i];
      }
    }
    return nullptr;
  }
};

OpenClPeer::OpenClPeer() : calls_(std::make_unique<Calls>()) {}

std::expected<std::unique_ptr<OpenClPeer>, std::string> OpenClPeer::open() {
  const auto library = SharedObject::open("libOpenCL.so.1");
  if (!library) return std::unexpected(library.error());
  std::unique_ptr<OpenClPeer> peer(new OpenClPeer);
  if (!peer->calls_->load(*library)) return std::unexpected("libOpenCL.so.1 lacks a function of OpenCL 1.2");
  if (auto missing = peer->set_up(); !missing.empty()) return std::unexpected(std::move(missing));
  return peer;
}

std::string OpenClPeer::set_up() {
  const Handle platform = calls_->pocl();
  if (platform == nullptr) return "no OpenCL platform of that name";
  Handle device = nullptr;
  if (calls_->get_devices(platform, kCpuDevice, 1, &device, nullptr) != 0) return "it has no CPU device";
  int error = 0;
  if ((context_ = calls_->create_context(nullptr, 1, &device, nullptr, nullptr, &error)) == nullptr) {
    return "clCreateContext failed with " + std::to_string(error);
  }
  if ((queue_ = calls_->create_queue(context_, device, 0, &error)) == nullptr) {
    return "clCreateCommandQueue failed with " + std::to_string(error);
  }
  const char* source = kSource;
  program_ = calls_->create_program(context_, 1, &source, nullptr, &error);
  if (program_ == nullptr || calls_->build_program(program_, 1, &device, "", nullptr, nullptr) != 0) {
    return "its compiler refused an empty kernel";
  }
  if ((kernel_ = calls_->create_kernel(program_, "nothing", &error)) == nullptr) {
    return "clCreateKernel failed with " + std::to_string(error);
  }
  enqueue();  // the first launch compiles for the work-group size
  finish();
  return {};
}

OpenClPeer::~OpenClPeer() {
  if (kernel_ != nullptr) calls_->release_kernel(kernel_);
  if (program_ != nullptr) calls_->release_program(program_);
  if (queue_ != nullptr) calls_->release_queue(queue_);
  if (context_ != nullptr) calls_->release_context(context_);
}

void OpenClPeer::enqueue() {
  constexpr std::size_t kOne = 1;
  check(calls_->enqueue_kernel(queue_, kernel_, 1, nullptr, &kOne, &kOne, 0, nullptr, nullptr),
        "clEnqueueNDRangeKernel");
}
void OpenClPeer::finish() { check(calls_->finish(queue_), "clFinish"); }

}  // namespace bench
