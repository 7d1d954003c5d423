#include "dlpack_capsule.hpp"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include "sluice/error.hpp"

namespace sluice::python {
namespace {

// As the DLPack specification names capsules before and after their tensor was taken.
constexpr const char* kTensor = "dltensor";
constexpr const char* kTakenTensor = "used_dltensor";

void delete_untaken(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kTensor) == 0) return;
  const host::TensorPtr tensor(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kTensor)));
}

py::object to_capsule(host::TensorPtr& tensor) {
  auto capsule = py::reinterpret_steal<py::object>(PyCapsule_New(tensor.get(), kTensor, delete_untaken));
  if (!capsule) throw py::error_already_set();
  static_cast<void>(tensor.release());
  return capsule;
}

host::TensorPtr from_capsule(const py::handle& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kTensor) == 0)
    throw Error("expected a DLPack capsule that holds a tensor, got " + std::string(py::str(capsule)));
  host::TensorPtr tensor(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kTensor)));
  PyCapsule_SetName(capsule.ptr(), kTakenTensor);
  return tensor;
}

}  // namespace

py::list to_capsules(std::span<host::Payload> payloads) {
  py::list lists;
  for (host::Payload& payload : payloads) {
    py::list capsules;
    for (host::TensorPtr& tensor : payload) capsules.append(to_capsule(tensor));
    payload.clear();
    lists.append(std::move(capsules));
  }
  return lists;
}

void from_capsules(const py::object& lists, std::span<host::Payload> payloads) {
  const std::size_t given = lists.is_none() ? 0 : py::len(lists);
  if (given != payloads.size())
    throw Error(fmt::format("{} lists of tensors for {} edges", given, payloads.size()));
  std::size_t place = 0;
  for (const py::handle list : lists) {
    host::Payload& payload = payloads[place++];
    payload.clear();
    for (const py::handle capsule : list) payload.push_back(from_capsule(capsule));
  }
}

}  // namespace sluice::python
