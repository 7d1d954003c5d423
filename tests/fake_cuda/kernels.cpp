#include "kernels.hpp"

#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "capture.hpp"
#include "report.hpp"
#include "thread_sanitizer.hpp"

namespace fakecuda {
namespace kernels {
namespace {

struct Tables {
  std::shared_mutex mutex;
  std::map<const void*, DeviceFunction> functions;
  std::deque<StandIn> stand_ins;
};

// Made when first used: nvcc's constructors and the stand-ins' come in any order.
Tables& tables() {
  static auto& value = *new Tables;
  return value;
}

/// A demangled name is `[void ][namespaces::]name...`.
bool matches(const DeviceFunction& function, const std::string& wanted) {
  if (function.mangled == wanted) return true;
  const std::string& name = function.name;
  for (std::size_t at = name.find(wanted); at != std::string::npos; at = name.find(wanted, at + 1)) {
    const char before = at == 0 ? ' ' : name[at - 1];
    if (before == ' ' || before == ':') return true;
  }
  return false;
}

}  // namespace

void add_function(DeviceFunction function) {
  const std::lock_guard lock(tables().mutex);
  const void* stub = function.stub;
  tables().functions.insert_or_assign(stub, std::move(function));
}

const DeviceFunction* find_function(const void* stub) {
  const std::shared_lock lock(tables().mutex);
  const auto found = tables().functions.find(stub);
  return found == tables().functions.end() ? nullptr : &found->second;
}

const StandIn* find_stand_in(const DeviceFunction& function) {
  const std::shared_lock lock(tables().mutex);
  for (const StandIn& stand_in : tables().stand_ins) {
    if (matches(function, stand_in.name)) return &stand_in;
  }
  return nullptr;
}

}  // namespace kernels

namespace {

constexpr unsigned kMostThreads = 1024;

bool fits(dim3 grid, dim3 block) {
  const bool any = grid.x > 0 && grid.y > 0 && grid.z > 0 && block.x > 0 && block.y > 0 && block.z > 0;
  return any && block.x <= kMostThreads && block.y <= kMostThreads &&
         block.x * block.y * block.z <= kMostThreads;
}

/// The memory that arguments point into, held while the kernel runs; false, with a report, if some of it is
/// gone.
bool hold_memory(const KernelCall& kernel, const std::string& name,
                 std::vector<std::shared_ptr<Allocation>>& held) {
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
    if (kernel.arguments[i].size() != sizeof(void*)) continue;
    const void* address = nullptr;
    std::memcpy(&address, kernel.arguments[i].data(), sizeof address);
    const auto location = AddressSpace::instance().find(address);
    const bool gone = location ? !location->memory->live() : AddressSpace::instance().freed(address);
    if (gone) {
      report("argument " + std::to_string(i) + " of " + name + " points to memory that is not allocated");
      return false;
    }
    if (location) held.push_back(location->memory);
  }
  return true;
}

std::shared_ptr<KernelCall> copy_call(const DeviceFunction& function, const StandIn& stand_in, dim3 grid,
                                      dim3 block, void** arguments, std::size_t shared_bytes) {
  auto kernel = std::make_shared<KernelCall>();
  kernel->function = function.stub;
  kernel->grid = grid;
  kernel->block = block;
  kernel->shared_bytes = static_cast<unsigned>(shared_bytes);
  for (std::size_t i = 0; i < stand_in.sizes.size(); ++i) {
    const char* argument = static_cast<const char*>(arguments[i]);
    kernel->arguments.emplace_back(argument, argument + stand_in.sizes[i]);
  }
  for (auto& argument : kernel->arguments) kernel->pointers.push_back(argument.data());
  return kernel;
}

}  // namespace

cudaError_t launch(const DeviceFunction& function, dim3 grid, dim3 block, void** arguments,
                   std::size_t shared_bytes, cudaStream_t stream) {
  const StandIn* stand_in = kernels::find_stand_in(function);
  if (stand_in == nullptr) {
    std::fprintf(stderr, "fakecuda: no stand-in for kernel %s (%s)\n", function.name.c_str(),
                 function.mangled.c_str());
    return cudaErrorInvalidDeviceFunction;
  }
  if (!fits(grid, block)) return cudaErrorInvalidConfiguration;
  auto work = std::make_shared<Work>();
  work->type = cudaGraphNodeTypeKernel;
  work->label = function.name;
  work->kernel = copy_call(function, *stand_in, grid, block, arguments, shared_bytes);
  work->run = [stand_in, kernel = work->kernel, name = function.name] {
    std::vector<std::shared_ptr<Allocation>> held;
    if (!hold_memory(*kernel, name, held)) return cudaErrorIllegalAddress;
    const Exposed exposed;
    stand_in->function(kernel->grid, kernel->block, kernel->shared_bytes, kernel->pointers.data(),
                       stand_in->context);
    return cudaSuccess;
  };
  return submit(stream, std::move(work));
}

}  // namespace fakecuda

void fakecuda_register_kernel(const char* name, const std::size_t* sizes, std::size_t count,
                              fakecuda_kernel_function function, void* context) {
  const fakecuda::Hidden hidden;
  auto& tables = fakecuda::kernels::tables();
  const std::lock_guard lock(tables.mutex);
  tables.stand_ins.push_back({name, {sizes, sizes + count}, function, context});
}
