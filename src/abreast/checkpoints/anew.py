"""How to train from the beginning again, as the hints of errors say it."""

ANEW = "begin anew in another folder, or with abreast run --checkpoint-reset"
