/* What a connection may read and write, by topic id: `broker/rights/connection_rights.py`. It stands in the place of
 * the broker in requests of users with access rules. `ConnectionRights.hold` is the twin of `rights_hold`.
 *
 * To be included behind the declarations of the slots `rights_*`.
 */
#ifndef HEADWATER_RIGHTS_H
#define HEADWATER_RIGHTS_H

#include <time.h>

#include "slots.h"

/* Whether the rules are those under which the rights were noted, and the session is not over. */
static inline int rights_hold(PyObject *rights, PyObject *name_image, PyObject *name_generation) {
    int64_t noted, present, deadline_ns;
    struct timespec now;
    PyObject *broker = SLOT(rights, rights_broker);
    PyObject *image = broker == NULL ? NULL : PyObject_GetAttr(broker, name_image);
    PyObject *generation = image == NULL ? NULL : PyObject_GetAttr(image, name_generation);
    int hold = number(generation, &present) && get(rights, rights_generation, &noted) && noted == present;
    Py_XDECREF(generation);
    Py_XDECREF(image);
    if (!hold || !get(rights, rights_deadline, &deadline_ns) || clock_gettime(CLOCK_MONOTONIC, &now)) return 0;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec < deadline_ns;
}

/* Whether the topic of that id is among those that are noted. */
static inline int rights_have(PyObject *noted, PyObject *topic_id) {
    return noted != NULL && PySet_CheckExact(noted) && topic_id != NULL && PyBytes_CheckExact(topic_id) &&
           PySet_Contains(noted, topic_id) == 1;
}

#endif
