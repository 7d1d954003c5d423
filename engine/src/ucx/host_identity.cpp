#include "host_identity.hpp"

#include <sys/stat.h>

#include <fstream>

#include "sluice/error.hpp"

namespace sluice::ucx {

HostIdentity this_host() {
  HostIdentity identity;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (!std::getline(boot, identity.boot)) throw Error("cannot read /proc/sys/kernel/random/boot_id");
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) throw Error("cannot read /proc/self/ns/net");
  identity.network = network.st_ino;
  return identity;
}

}  // namespace sluice::ucx
