"""What a registry refused, or that none could be reached."""

from headwater.base.errors import UserError


class SchemaRegistryError(UserError):
    """`status` is HTTP's, `error_code` the registry's own (40401, 42201, ...); both are 0 where no registry
    answered.
    """

    def __init__(self, what: str, why: str = "", hint: str = "", *, status: int = 0, error_code: int = 0) -> None:
        super().__init__(what, why, hint)
        self.status = status
        self.error_code = error_code
